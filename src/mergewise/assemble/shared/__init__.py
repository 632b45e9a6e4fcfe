"""What all strategies share: fragments and candidates, sentences and chunks, the selection under the budget, the rendering."""
