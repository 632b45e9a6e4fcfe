"""What strategies share: fragments, candidates, sentences, chunks, the selection under the budget, and the rendering."""
