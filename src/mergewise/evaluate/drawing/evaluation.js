"use strict";
(() => {
  const SHOWN = 25;
  const MOST = 4;

  // -- helpers

  const make = (name, properties = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (value === undefined || value === null || value === false) continue;
      if (key in element && key !== "list") element[key] = value;
      else element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  };

  const blocks = new Map();
  // a block of compressed JSON in the page, unpacked once
  const block = (name) => {
    if (!blocks.has(name)) blocks.set(name, unpack(document.getElementById(`data-${name}`).textContent));
    return blocks.get(name);
  };
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  // -- tables: sorted by a column, copied as text

  const number = (row, column) => {
    const value = row.cells[column]?.dataset.v;
    return value === undefined ? -Infinity : Number(value);
  };

  const makeSortable = (table) => {
    const head = table.tHead.rows[table.tHead.rows.length - 1];
    [...head.cells].forEach((cell, column) => {
      const label = [...cell.childNodes];
      const button = make("button", { type: "button", className: "sort" });
      button.append(...label);
      cell.append(button);
      button.addEventListener("click", () => {
        const falls = cell.getAttribute("aria-sort") === (column ? "descending" : "ascending");
        const up = column ? falls : !falls;
        [...head.cells].forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", up ? "ascending" : "descending");
        for (const body of table.tBodies) {
          const rows = [...body.rows].filter((row) => !row.classList.contains("section"));
          const order = (a, b) => column
            ? number(a, column) - number(b, column)
            : a.cells[0].firstChild.data.localeCompare(b.cells[0].firstChild.data);
          rows.sort((a, b) => (up ? order(a, b) : order(b, a)));
          body.append(...rows);
        }
      });
    });
  };

  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", { value: text, className: "sr" });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  for (const table of document.querySelectorAll(".table table")) makeSortable(table);
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const label = button.textContent;
      await copy(button.dataset.copy);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  }

  // -- questions

  const place = document.getElementById("asked");
  if (!place) return;

  const choice = (label, options, value) => {
    const select = make("select", {}, ...options.map(([key, text]) => make("option", { value: key }, text)));
    if (value !== undefined) select.value = value;
    return [select, make("label", {}, make("span", {}, label), select)];
  };

  const start = async () => {
    const head = await block("head");
    const { methods, budgets, sets, metrics, questions, scores } = head;
    const column = (method, budget) => methods.indexOf(method) * budgets.length + budgets.indexOf(budget);
    const score = (metric, method, budget, at) => {
      const value = scores[metric]?.[column(method, budget)]?.[at];
      return value === undefined || value === null ? null : value / 1000;
    };
    const ran = methods.filter((method) => budgets.some((budget) => scores[head.main][column(method, budget)]));
    const middle = budgets[Math.floor(budgets.length / 2)];
    const others = ran.filter((method) => method !== head.reference);
    const mean = (method) => {
      const known = (scores[head.main][column(method, middle)] ?? []).filter((value) => value !== null);
      return known.reduce((sum, value) => sum + value, 0) / Math.max(1, known.length);
    };
    others.sort((a, b) => mean(b) - mean(a));
    const state = { open: null, methods: [], shown: SHOWN };

    const unique = (values) => [...new Set(values)].filter((value) => value !== "" && value !== null);
    const all = (values, none) => [["", none], ...values.map((value) => [String(value), String(value)])];
    const [bySet, setLabel] = choice("Set", all(sets, "all"), "");
    const kinds = unique(questions.map((question) => question.kind)).sort();
    const [byKind, kindLabel] = choice("Kind", all(kinds, "all"), "");
    const hops = unique(questions.map((question) => question.hops)).sort();
    const [byHops, hopsLabel] = choice("Hops", all(hops, "all"), "");
    const [byBudget, budgetLabel] = choice("Budget", budgets.map((budget) => [String(budget), budget.toLocaleString("en")]), String(middle));
    const [byMetric, metricLabel] = choice("Score", metrics.map((metric) => [metric, metric.replaceAll("_", " ")]), head.main);
    const [first, firstLabel] = choice("A", ran.map((method) => [method, method]), others[0] ?? ran[0]);
    const [second, secondLabel] = choice("B", ran.map((method) => [method, method]), ran.includes(head.reference) ? head.reference : ran[0]);
    const [show, showLabel] = choice("Show", [["all", "all"], ["missed", "missed by some"], ["differ", "A and B differ"],
      ["onlyA", "only A has the gold"], ["onlyB", "only B has the gold"], ["none", "no method has the gold"]], "all");
    const [sort, sortLabel] = choice("Order", [["better", "A better first"], ["worse", "B better first"], ["asked", "original order"]], "better");
    const words = make("input", { type: "search", placeholder: "words of the question", ariaLabel: "Words of the question" });
    const count = make("p", { className: "facts", role: "status" });
    const list = make("div", { className: "list" });
    const more = make("button", { type: "button", className: "more", hidden: true });
    const controls = [sets.length > 1 && setLabel, kinds.length > 1 && kindLabel, hops.length > 1 && hopsLabel, firstLabel, secondLabel,
      budgets.length > 1 && budgetLabel, metrics.length > 1 && metricLabel, showLabel, sortLabel, make("label", {}, make("span", {}, "Find"), words)];
    place.append(make("form", { className: "controls" }, ...controls.filter(Boolean)), count, list, more);

    const budget = () => Number(byBudget.value);
    const known = (method, at) => score(byMetric.value, method, budget(), at);
    const hasGold = (method, at) => score(head.held, method, budget(), at) === 1;
    const gain = (at) => (known(first.value, at) ?? 0) - (known(second.value, at) ?? 0);

    const matchesFilters = (question, at) => {
      if (bySet.value && sets[question.set] !== bySet.value) return false;
      if (byKind.value && question.kind !== byKind.value) return false;
      if (byHops.value && String(question.hops) !== byHops.value) return false;
      const text = words.value.trim().toLowerCase();
      if (text && !text.split(/\s+/).every((word) => question.text.toLowerCase().includes(word))) return false;
      const rest = (one) => ran.filter((method) => method !== one);
      switch (show.value) {
        case "missed": return ran.some((method) => score(head.held, method, budget(), at) === 0 || (known(method, at) ?? 1) < 1);
        case "differ": return gain(at) !== 0;
        case "onlyA": return hasGold(first.value, at) && !rest(first.value).some((method) => hasGold(method, at));
        case "onlyB": return hasGold(second.value, at) && !rest(second.value).some((method) => hasGold(method, at));
        case "none": return !ran.some((method) => hasGold(method, at));
        default: return true;
      }
    };

    const identity = (at) => `${sets[questions[at].set]}/${questions[at].id}`;
    const figure = (value) => (value === null ? "–" : Number.isInteger(value) ? String(value) : value.toFixed(2));

    const chips = (at) => [first.value, second.value].filter((method, i, both) => both.indexOf(method) === i).map((method) => {
      const value = known(method, at);
      const kind = value === null ? "verdict" : value >= 1 ? "verdict good" : value <= 0 ? "verdict bad" : "verdict";
      return make("li", {}, `${method} `, make("span", { className: kind }, figure(value)));
    });

    const card = (at) => {
      const question = questions[at];
      const inside = make("div", { className: "inside", hidden: true });
      const button = make("button", { type: "button", className: "ask", ariaExpanded: "false" },
        make("span", { className: "number" }, String(at + 1)), make("span", { dir: "auto" }, question.text));
      const gold = question.gold.length
        ? make("p", { className: "gold" }, "Gold: ", ...question.gold.flatMap((text, i) => [i ? " or " : "", make("q", { dir: "auto" }, text)]))
        : make("p", { className: "gold" }, make("i", {}, question.answerable ? "no gold answer marked" : "no answer in the documents"));
      const tags = [sets.length > 1 && sets[question.set], question.kind, question.hops && `${question.hops} hops`].filter(Boolean);
      const article = make("article", { className: "question", tabIndex: -1 }, make("h3", {}, button),
        tags.length ? make("p", { className: "where" }, tags.join(" · ")) : null, gold, make("ul", { className: "verdicts" }, ...chips(at)), inside);
      button.addEventListener("click", () => (inside.hidden ? open(at, article, inside, button) : shut(article, inside, button)));
      return { article, inside, button };
    };

    const shut = (article, inside, button) => {
      inside.hidden = true;
      inside.replaceChildren();
      button.ariaExpanded = "false";
      article.classList.remove("opened");
      history.replaceState(null, "", "#sources");
    };

    const address = (at, chosen) => {
      const parts = [["q", encodeURIComponent(identity(at))], ["m", chosen.map(encodeURIComponent).join(",")], ["b", budget()]];
      return `#${parts.map((part) => part.join("=")).join("&")}`;
    };

    const open = async (at, article, inside, button) => {
      inside.hidden = false;
      button.ariaExpanded = "true";
      article.classList.add("opened");
      if (!state.methods.length) state.methods = [...new Set([first.value, second.value])];
      const draw = async () => {
        history.replaceState(null, "", address(at, state.methods));
        inside.replaceChildren(picker(draw), await contexts(at, state.methods));
      };
      await draw();
    };

    const picker = (draw) => {
      const boxes = ran.map((method) => {
        const box = make("input", { type: "checkbox", checked: state.methods.includes(method), disabled: !state.methods.includes(method) && state.methods.length >= MOST });
        box.addEventListener("change", () => {
          state.methods = box.checked ? [...state.methods, method] : state.methods.filter((one) => one !== method);
          draw();
        });
        return make("label", {}, box, method);
      });
      return make("fieldset", { className: "picker" }, make("legend", {}, `Methods, up to ${MOST}`), ...boxes);
    };

    // -- contexts side by side

    const contexts = async (at, chosen) => {
      const question = questions[at];
      if (question.block < 0) return make("p", { className: "notice" }, "The contexts of this question are not on this page. The run folder has them.");
      const own = (await block(`q${question.block}`))[at];
      const rows = chosen.map((method) => own.rows[column(method, budget())] ?? null);
      const documents = new Set();
      const spans = (row) => (row?.passages ?? []).flatMap((passage) => {
        const found = [];
        for (let i = 0; i < passage[1].length; i += 3) found.push(passage[1].slice(i, i + 3));
        return found;
      });
      rows.forEach((row) => spans(row).forEach(([doc]) => documents.add(doc)));
      own.gold.forEach(([doc]) => documents.add(doc));
      documents.delete(-1);
      const texts = new Map(await Promise.all([...documents].map(async (doc) => [doc, head.documents[doc][2] < 0 ? [] : (await block(`t${head.documents[doc][2]}`))[doc] ?? []])));
      const covered = rows.map(spans);
      const drawn = rows.map((row, i) => context(at, chosen[i], row, own.gold, texts, covered.filter((_, other) => other !== i).flat()));
      const several = rows.filter((row) => row?.passages).length > 1;
      const legend = make("ul", { className: "legend" }, make("li", {}, make("mark", { className: "k gold" }, "gold"), "a gold text"),
        several ? make("li", {}, make("mark", { className: "k only" }, "only"), "in none of the other contexts") : null);
      return make("div", {}, rows.some((row) => row?.passages) ? legend : null, make("div", { className: "columns", style: `--columns: ${chosen.length}` }, ...drawn));
    };

    const piece = (texts, doc, start, end) => {
      // texts are sorted by offset; offsets count code points, not UTF-16 units
      const found = (texts.get(doc) ?? []).findLast(([from]) => from <= start);
      return found ? characters(found[1], start - found[0], end - found[0]) : "";
    };
    const characters = (text, start, end) => (/[\ud800-\udfff]/.test(text) ? [...text].slice(start, end).join("") : text.slice(start, end));

    const context = (at, method, row, gold, texts, others) => {
      const parts = [make("h4", { dir: "auto" }, method)];
      if (!row) return make("section", { className: "column" }, ...parts, make("p", { className: "where" }, `Not run at ${budget().toLocaleString("en")} tokens.`));
      const figures = metrics.filter((metric) => metricScore(metric, method, at) !== null)
        .map((metric) => `${metric.replaceAll("_", " ")} ${figure(metricScore(metric, method, at))}`);
      parts.push(make("p", { className: "where" }, figures.join(" · ")));
      if (row.error) parts.push(make("p", { className: "notice" }, `Failed: ${row.error}`));
      if (row.said) parts.push(make("p", { className: "reply", dir: "auto" }, row.said));
      for (const [text, stage] of row.lost ?? []) {
        parts.push(make("p", { className: "lost" }, make("span", { className: "verdict bad" }, "missing"), " ", make("q", { dir: "auto" }, text),
          make("span", { className: "where" }, ` ${head.stages[stage]}`)));
      }
      for (const passage of row.passages ?? []) parts.push(passageBox(passage, gold, texts, others));
      for (const [where, text] of row.found ?? []) {
        parts.push(make("div", { className: "passage" }, make("p", { className: "where" }, where), make("p", { className: "text", dir: "auto" }, text)));
      }
      if (!row.passages && !row.found && !row.error) parts.push(make("p", { className: "where" }, row.lost ? "No passages found." : "Nothing is missing."));
      return make("section", { className: "column" }, ...parts);
    };
    const metricScore = (metric, method, at) => score(metric, method, budget(), at);

    const passageBox = ([value, spans, written], gold, texts, others) => {
      const box = make("div", { className: "passage" });
      if (written !== undefined) {
        box.append(make("p", { className: "where" }, "written by a model"), make("p", { className: "text", dir: "auto" }, ...markGold(written, gold)));
        return box;
      }
      const [, title] = head.documents[spans[0]] ?? ["", ""];
      const name = head.documents[spans[0]]?.[0] ?? "";
      box.append(make("p", { className: "where", title: name, dir: "auto" }, title || name));
      const text = make("p", { className: "text", dir: "auto" });
      let end = null;
      for (let i = 0; i < spans.length; i += 3) {
        const [doc, from, to] = spans.slice(i, i + 3);
        if (end !== null) text.append(make("span", { className: "gap" }, " … "));
        text.append(...stretches(doc, from, to, gold, texts, others));
        end = to;
      }
      box.append(text);
      return box;
    };

    const stretches = (doc, from, to, gold, texts, others) => {
      const marked = gold.filter((one) => one[0] === doc && one[1] < to && one[2] > from);
      const elsewhere = others.filter((one) => one[0] === doc && one[1] < to && one[2] > from);
      const bounds = new Set([from, to]);
      for (const [, start, end] of [...marked, ...elsewhere]) {
        if (start > from) bounds.add(start);
        if (end < to) bounds.add(end);
      }
      const cuts = [...bounds].sort((a, b) => a - b);
      const found = [];
      for (let i = 0; i + 1 < cuts.length; i += 1) {
        const words = piece(texts, doc, cuts[i], cuts[i + 1]);
        const inside = (spans) => spans.some(([, start, end]) => start <= cuts[i] && end >= cuts[i + 1]);
        const only = others.length && !inside(elsewhere) && words.trim();
        if (inside(marked)) found.push(make("mark", { className: "k gold", title: only ? "gold, in none of the other contexts" : "gold" }, words));
        else if (only) found.push(make("mark", { className: "k only", title: "in none of the other contexts" }, words));
        else found.push(words);
      }
      return found;
    };

    const markGold = (text, gold) => {
      const at = gold.map((one) => [text.indexOf(one[3]), one[3].length]).filter(([start]) => start >= 0).sort((a, b) => a[0] - b[0]);
      const found = [];
      let end = 0;
      for (const [start, length] of at) {
        if (start < end) continue;
        found.push(text.slice(end, start), make("mark", { className: "k gold" }, text.slice(start, start + length)));
        end = start + length;
      }
      return [...found, text.slice(end)];
    };

    // -- the list

    const draw = () => {
      const places = questions.map((_, at) => at).filter((at) => matchesFilters(questions[at], at));
      if (sort.value !== "asked") {
        const sign = sort.value === "better" ? -1 : 1;
        places.sort((a, b) => sign * (gain(a) - gain(b)) || a - b);
      }
      const better = places.filter((at) => gain(at) > 0).length;
      const worse = places.filter((at) => gain(at) < 0).length;
      count.textContent = `${places.length.toLocaleString("en")} question${places.length === 1 ? "" : "s"}` +
        (first.value === second.value ? "" : `: A better in ${better}, B in ${worse}`);
      list.replaceChildren(...places.slice(0, state.shown).map((at) => card(at).article));
      more.hidden = places.length <= state.shown;
      more.textContent = `Show ${Math.min(SHOWN, places.length - state.shown)} more`;
    };
    const again = () => { state.shown = SHOWN; state.methods = []; draw(); };
    for (const control of [bySet, byKind, byHops, byBudget, byMetric, first, second, show, sort]) control.addEventListener("change", again);
    words.addEventListener("input", again);
    more.addEventListener("click", () => { state.shown += SHOWN; draw(); });
    place.querySelector("form").addEventListener("submit", (event) => event.preventDefault());

    const openFromHash = async () => {
      const parts = Object.fromEntries(location.hash.slice(1).split("&").map((part) => part.split("=")));
      if (!parts.q) return;
      let asked;
      try { asked = decodeURIComponent(parts.q); } catch { return; }
      let at = questions.findIndex((_, i) => identity(i) === asked);
      if (at < 0) at = questions.findIndex((question) => question.id === asked);
      if (at < 0) return;
      if (parts.b && budgets.includes(Number(parts.b))) byBudget.value = parts.b;
      const chosen = (parts.m ?? "").split(",").map((name) => { try { return decodeURIComponent(name); } catch { return ""; } });
      const named = [...new Set(chosen)].filter((method) => ran.includes(method)).slice(0, MOST);
      if (named.length) first.value = named[0];
      if (named.length > 1) second.value = named[1];
      draw();
      state.methods = named;
      const { article, inside, button } = card(at);
      list.prepend(article);
      await open(at, article, inside, button);
      article.focus({ preventScroll: true });
      article.scrollIntoView({ block: "start" });
    };
    addEventListener("hashchange", openFromHash);
    draw();
    await openFromHash();
    place.dataset.ready = "";
  };

  start().catch((error) => {
    place.append(make("p", { className: "notice" }, `Cannot show the questions: ${error.message}`));
  });
})();
