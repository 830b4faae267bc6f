"use strict";
// Everything is on the page without this script; it only adds sorting, filters, zoom and tips. Text goes in as text, never as HTML.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const number = new Intl.NumberFormat("en");

  function make(tag, properties, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  function draw(tag, attributes, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function size(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
    return `${unit === 0 || bytes >= 100 ? bytes.toFixed(0) : bytes.toFixed(1)} ${units[unit]}`;
  }

  function data(id) {
    const node = document.getElementById(id);
    return node ? JSON.parse(node.textContent) : null;
  }

  // Tables

  function valueOf(row, column, isNumber) {
    const cell = row.cells[column];
    const sort = cell.dataset.sort;
    const value = sort === undefined ? cell.textContent : sort;
    return isNumber || (sort !== undefined && sort !== "" && !Number.isNaN(Number(sort))) ? Number(value) : value;
  }

  function sortBy(table, head, column) {
    const isNumber = head.dataset.kind === "number";
    const before = head.getAttribute("aria-sort");
    const direction = before === "none" ? (isNumber ? "descending" : "ascending") : before === "ascending" ? "descending" : "ascending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const keyed = Array.from(table.tBodies[0].rows, (row) => [valueOf(row, column, isNumber), row]);
    const collator = new Intl.Collator("en", { numeric: true });
    keyed.sort(([a], [b]) => sign * (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b)));
    table.tBodies[0].append(...keyed.map(([, row]) => row));
  }

  function makeSortable(table) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const button = make("button", { type: "button" });
      button.setAttribute("aria-label", `Sort by ${head.textContent}`);
      head.addEventListener("click", () => sortBy(table, head, column));
      head.append(" ", button);
      head.setAttribute("aria-sort", "none");
    });
  }

  function makeFiltered(table) {
    const rows = Array.from(table.tBodies[0].rows, (row) => [row.textContent.toLowerCase(), row]);
    const name = table.caption.textContent;
    const field = make("input", { type: "search", placeholder: "words to look for", name: "filter" });
    const count = make("span", { className: "muted" });
    count.setAttribute("role", "status");
    field.setAttribute("aria-label", `Filter: ${name}`);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [text, row] of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? `${number.format(shown)} of ${number.format(rows.length)} rows` : "";
      document.dispatchEvent(new CustomEvent("filtered", { detail: { name, words } }));
    });
    table.closest(".tabled").prepend(make("div", { className: "filter" }, make("label", {}, "Filter ", field), count));
  }

  for (const table of document.querySelectorAll("table")) {
    makeSortable(table);
    if (table.hasAttribute("data-filtered") && table.tBodies[0].rows.length > 5) makeFiltered(table);
  }

  // Commands

  async function copy(code, button) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }

  for (const code of document.querySelectorAll("code.command")) {
    const button = make("button", { type: "button", className: "copy" }, "copy");
    button.setAttribute("aria-label", `Copy: ${code.textContent}`);
    button.addEventListener("click", () => copy(code, button));
    code.after(button);
  }

  // Tips: what a drawing says by its titles, at once and larger than the browser shows it

  const tip = document.getElementById("tip");
  document.addEventListener("pointermove", (event) => {
    const title = event.target instanceof SVGElement ? event.target.querySelector(":scope > title") : null;
    if (!title || event.target.localName === "svg") { tip.hidden = true; return; }
    tip.textContent = title.textContent;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(Math.min(event.clientX + 14, innerWidth - box.width - 8), 4)}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
  });

  // The treemap: a click on a topic or a partition shows it alone

  function squarified(weights, x, y, width, height) {
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const areas = [];
    if (!total || width < 1 || height < 1) return weights.map(() => [x, y, 0, 0]);
    const sizes = weights.map((weight) => (weight * width * height) / total);
    const worst = (sum, largest, smallest, side) => Math.max((largest * side * side) / (sum * sum), (sum * sum) / (smallest * side * side));
    let start = 0;
    while (start < sizes.length) {
      const side = Math.min(width, height);
      let stop = start + 1;
      let sum = sizes[start];
      while (stop < sizes.length && worst(sum + sizes[stop], sizes[start], sizes[stop], side) <= worst(sum, sizes[start], sizes[stop - 1], side)) {
        sum += sizes[stop];
        stop += 1;
      }
      const thickness = sum / side;
      let at = 0;
      for (const area of sizes.slice(start, stop)) {
        const length = area / thickness;
        areas.push(width >= height ? [x, y + at, thickness, length] : [x + at, y, length, thickness]);
        at += length;
      }
      if (width >= height) { x += thickness; width -= thickness; } else { y += thickness; height -= thickness; }
      start = stop;
    }
    return areas;
  }

  function treemap() {
    const svg = document.getElementById("treemap");
    const topics = data("treemap-data");
    if (!svg || !topics) return;
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const whole = Array.from(svg.children);
    const crumbs = make("div", { className: "crumbs" });
    crumbs.setAttribute("aria-label", "Where the treemap is");
    crumbs.setAttribute("role", "group");
    svg.before(crumbs);

    function trail(path) {
      const steps = ["everything", ...path.map((step) => step.name)];
      crumbs.replaceChildren(...steps.map((name, at) => {
        const button = make("button", { type: "button" }, name);
        button.addEventListener("click", () => show(path.slice(0, at)));
        return button;
      }));
      if (!path.length) crumbs.append(make("span", { className: "muted" }, "click an area to look inside; Esc goes back"));
    }

    function show(path) {
      const hadFocus = svg.contains(document.activeElement);
      trail(path);
      svg.focusPath = path;
      look(path);
      // What had the focus is gone; on <body> a screen reader would start again.
      if (hadFocus) (svg.querySelector("[tabindex='0']") ?? crumbs.querySelector("button"))?.focus();
    }

    function look(path) {
      if (!path.length) { svg.replaceChildren(...whole); return; }
      const here = path[path.length - 1];
      const items = here.items.filter((item) => item.bytes > 0).sort((a, b) => b.bytes - a.bytes);
      const areas = squarified(items.map((item) => item.bytes), 0, 0, width, height);
      const drawn = items.map((item, at) => block(item, areas[at], at, here.colour, path));
      svg.replaceChildren(...whole.filter((node) => ["title", "desc"].includes(node.localName)), ...drawn);
    }

    function middleCut(text, length) {
      if (text.length <= length) return text;
      const end = Math.floor((length - 1) / 2);
      return `${text.slice(0, length - 1 - end)}…${text.slice(text.length - end)}`;
    }

    // The tables have everything: the keyboard need not pass thousands of areas.
    function openable(rect, name, at, open) {
      rect.setAttribute("tabindex", at < 30 ? "0" : "-1");
      rect.setAttribute("role", "button");
      rect.setAttribute("aria-label", `Look inside ${name}`);
      rect.addEventListener("click", open);
      rect.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); }
      });
    }

    function block(item, [x, y, w, h], at, colour, path) {
      const title = draw("title", {}, `${item.title}: ${size(item.bytes)}`);
      const rect = draw("rect", { x, y, width: w, height: h, class: `partition ${colour}` }, title);
      const group = draw("g", {}, rect);
      if (h > 18 && w > 34) {
        const room = Math.floor((w - 8) / 7);
        group.append(draw("text", { x: x + 4, y: y + 13, class: "name" }, middleCut(item.name, Math.max(room, 2))));
        if (h > 34) group.append(draw("text", { x: x + 4, y: y + 27, class: "name" }, w > 70 ? size(item.bytes) : ""));
      }
      if (item.items.length > 1) {
        rect.setAttribute("data-zoom", "");
        openable(rect, item.title, at, () => show([...path, item]));
      }
      return group;
    }

    const steps = topics.map(([topic, partitions], at) => ({
      name: topic,
      title: topic,
      colour: `c${at % 8}`,
      bytes: partitions.reduce((sum, each) => sum + each[1], 0),
      items: partitions.map(([name, bytes, segments]) => ({
        name,
        title: `${topic}-${name}`,
        colour: `c${at % 8}`,
        bytes,
        items: segments.map(([base, length]) => ({ name: base, title: `segment ${base} of ${topic}-${name}`, bytes: length, items: [] })),
      })),
    }));
    const groups = whole.filter((node) => node.localName === "g");
    const full = steps.filter((step) => step.bytes > 0);
    groups.forEach((group, at) => {
      const [frame, ...inside] = group.querySelectorAll("rect");
      const open = () => show([full[at]]);
      frame.setAttribute("data-zoom", "");
      openable(frame, full[at].name, at, open);
      for (const rect of inside) rect.addEventListener("click", open);
    });
    document.addEventListener("filtered", ({ detail: { name, words } }) => {
      if (name !== "Topics") return;
      groups.forEach((group, at) => group.classList.toggle("pale", !words.every((word) => full[at].name.toLowerCase().includes(word))));
    });
    svg.setAttribute("role", "group");
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && svg.focusPath && svg.focusPath.length) show(svg.focusPath.slice(0, -1));
    });
    trail([]);
  }

  treemap();

  // The timeline: drag across it to look closer

  function timeline() {
    const found = data("timeline-data");
    const charts = ["bytes", "records"].map((kind, at) => [document.getElementById(`timeline-${kind}`), at + 1]).filter(([svg]) => svg);
    if (!found || !charts.length || found.moments.length < 3) return;
    const LEFT = 64, RIGHT = 8, TOP = 10, BOTTOM = 22, MOST = 180;
    const first = charts[0][0];
    const originals = charts.map(([svg]) => Array.from(svg.children));
    const all = [found.moments[0][0], found.moments[found.moments.length - 1][0] + found.span];
    let range = null;
    const reset = make("button", { type: "button", hidden: true }, "show everything");
    const status = make("span", { className: "muted" }, "drag across the bars to look closer");
    status.setAttribute("role", "status");
    first.closest("figure").before(make("div", { className: "tools" }, reset, status));

    function text(time, wide) {
      if (time >= 253402300800000) return "after 9999";
      return new Date(time).toISOString().replace("T", " ").slice(0, wide ? 16 : 19);
    }

    function show(start, stop) {
      range = [start, stop];
      const spans = Math.max(Math.ceil((stop - start) / found.span), 1);
      const width = Math.ceil(spans / MOST) * found.span;
      const bars = Array.from({ length: Math.ceil((stop - start) / width) }, (_, at) => [start + at * width, 0, 0]);
      for (const [time, bytes, records] of found.moments) {
        const bar = bars[Math.floor((time - start) / width)];
        if (time >= start && time < stop && bar) { bar[1] += bytes; bar[2] += records; }
      }
      for (const [svg, field] of charts) redraw(svg, bars, field, start, start + bars.length * width);
      status.textContent = `${text(start)} to ${text(stop)} UTC`;
      reset.hidden = false;
    }

    function redraw(svg, bars, field, start, stop) {
      const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
      const largest = Math.max(...bars.map((bar) => bar[field]), 1);
      const low = height - BOTTOM, high = low - TOP, step = (width - LEFT - RIGHT) / bars.length;
      const group = draw("g", { class: `bars ${field === 1 ? "bytes" : "records"}` });
      bars.forEach((bar, at) => {
        if (!bar[field]) return;
        const tall = Math.max((high * bar[field]) / largest, 1);
        const title = draw("title", {}, `${text(bar[0])}: ${size(bar[1])}, ${number.format(bar[2])} records`);
        group.append(draw("rect", { x: LEFT + at * step, y: low - tall, width: Math.max(step - (step > 4 ? 1 : 0), 0.5), height: tall }, title));
      });
      const lines = [0, 1, 2, 3, 4].flatMap((line) => {
        const y = low - (high * line) / 4;
        const value = (largest * line) / 4;
        return [
          draw("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: "grid" }),
          draw("text", { x: LEFT - 6, y: y + 4, class: "axis end" }, field === 1 ? size(value) : number.format(Math.round(value))),
        ];
      });
      const ticks = [0, 1, 2, 3, 4, 5].map((tick) => draw("text", {
        x: LEFT + ((width - LEFT - RIGHT) * tick) / 5,
        y: low + 16,
        class: tick === 0 ? "axis" : tick === 5 ? "axis end" : "axis middle",
      }, text(start + ((stop - start) * tick) / 5, stop - start > 6e5)));
      svg.replaceChildren(...Array.from(svg.children).filter((node) => ["title", "desc"].includes(node.localName)), ...lines, group, ...ticks);
    }

    function everything() {
      range = null;
      charts.forEach(([svg], at) => svg.replaceChildren(...originals[at]));
      status.textContent = "drag across the bars to look closer";
      reset.hidden = true;
    }

    reset.addEventListener("click", everything);
    for (const [svg] of charts) {
      let from = null;
      const mark = draw("rect", { class: "selection", y: TOP });
      const place = (event) => {
        const box = svg.getBoundingClientRect();
        const width = Number(svg.getAttribute("viewBox").split(" ")[2]);
        return Math.min(Math.max(((event.clientX - box.left) / box.width) * width, LEFT), width - RIGHT);
      };
      svg.addEventListener("pointerdown", (event) => { from = place(event); event.preventDefault(); svg.setPointerCapture(event.pointerId); });
      svg.addEventListener("pointermove", (event) => {
        if (from === null) return;
        const [, , , height] = svg.getAttribute("viewBox").split(" ").map(Number);
        const to = place(event);
        for (const [name, value] of Object.entries({ x: Math.min(from, to), width: Math.abs(to - from), height: height - TOP - BOTTOM })) mark.setAttribute(name, value);
        svg.append(mark);
      });
      svg.addEventListener("pointerup", (event) => {
        const to = place(event);
        const [start, stop] = [Math.min(from ?? to, to), Math.max(from ?? to, to)];
        from = null;
        mark.remove();
        if (stop - start < 6) return;
        const inner = Number(svg.getAttribute("viewBox").split(" ")[2]) - LEFT - RIGHT;
        const [begin, end] = range ?? drawn;
        const at = (x) => begin + ((x - LEFT) / inner) * (end - begin);
        show(Math.floor(at(start) / found.span) * found.span, Math.ceil(at(stop) / found.span) * found.span);
      });
    }
    const drawn = found.drawn ?? all;
  }

  timeline();
})();
