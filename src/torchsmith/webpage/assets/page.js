"use strict";
(async () => {
  const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  const mine = data.mine;

  // An element; text is always text, never markup.
  const make = (name, attributes, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const words = (text) => text.toLowerCase().match(/[a-z0-9]+/g) || [];

  // ---- search ----
  const product = (name, sms, isas) => ({ words: words(name), whole: words(name).join(""), sms, isas });
  const products = [
    ...Object.entries(data.products.gpu).flatMap(([sm, names]) => names.map((name) => product(name, [sm], []))),
    ...data.products.cpu.flatMap((names) => names.slice(0, -1).map((name) => product(name, [], names.at(-1)))),
  ];
  const titles = [...Object.values(data.products.gpu).flatMap((names) => names.slice(0, -1)), ...data.products.cpu.map((names) => names[1])];
  document.getElementById("products").append(...[...new Set(titles)].map((value) => make("option", { value })));
  const follows = (all, part, at) => part.every((word, index) => all[at + index] === word);
  const holds = (all, part) => all.some((_, at) => at + part.length <= all.length && follows(all, part, at));

  const axes = new Set(data.cells.flatMap((cell) => [cell.g, cell.i]).filter(Boolean));
  // The name of an architecture or instruction set is that one alone; the longest run of words that some product's name holds is a product; other words are looked for as they are.
  const parse = (text) => {
    const left = text.toLowerCase().trim().split(/\s+/).filter(Boolean);
    const tests = [];
    while (left.length) {
      let taken = 0;
      const axis = left[0];
      if (axes.has(axis)) {
        tests.push((cell) => cell.g === axis || cell.i === axis);
        left.shift();
        continue;
      }
      for (let size = left.length; size > 0 && !taken; size--) {
        const asked = words(left.slice(0, size).join(" "));
        if (!asked.length || (size === 1 && !/\d/.test(left[0]) && asked[0].length < 4)) continue;
        const whole = asked.join("");
        const named = products.filter((product) => holds(product.words, asked) || product.whole === whole);
        if (!named.length) continue;
        const sms = new Set(named.flatMap((product) => product.sms));
        const isas = new Set(named.flatMap((product) => product.isas));
        const plain = size === 1 ? left[0] : null;
        tests.push((cell) => sms.has(cell.g) || isas.has(cell.i) || (plain && cell.text.includes(plain)));
        taken = size;
      }
      if (!taken) {
        const word = left[0];
        tests.push((cell) => cell.text.includes(word));
        taken = 1;
      }
      left.splice(0, taken);
    }
    return (cell) => tests.every((test) => test(cell));
  };

  const byAddress = new Map();
  for (const link of document.querySelectorAll("#matrix .c")) {
    const cell = data.cells[Number(link.dataset.c)];
    cell.link = link;
    byAddress.set(link.hash, cell);
    link.title = cell.n;
    link.id = link.hash.slice(1); // what its address leads to while its story is folded
  }
  data.cells.forEach((cell, index) => {
    cell.index = index;
    cell.text = [cell.n, data.words[cell.p], data.words[cell.t], data.states[cell.s][1]].join(" ").toLowerCase();
  });
  const cellsIn = (element) => [...element.querySelectorAll(".c")].map((link) => data.cells[Number(link.dataset.c)]);
  const tables = [...document.querySelectorAll("#matrix .grid, #matrix .others")].map((table) => ({
    table,
    box: table.closest(".place") || table,
    rows: [...table.querySelectorAll("tbody tr")].map((row) => ({ row, cells: cellsIn(row) })),
    cells: cellsIn(table),
    homes: [table.closest(".package"), table.closest("details")].filter(Boolean),
  }));
  // The one cell of a table that the tab key reaches; the others are a matter of arrows.
  const stopAt = (table, cell) => {
    if (table.stop) table.stop.link.tabIndex = -1;
    table.stop = cell;
    cell.link.tabIndex = 0;
  };
  const chosen = new Set();
  const found = document.getElementById("found");
  const search = document.getElementById("search");

  const AT_ONCE = 1; // grids that a filter lays out at once; those below wait for the next frame
  const filter = () => {
    const asked = search.value.trim();
    const test = parse(asked);
    let count = 0;
    for (const cell of data.cells) {
      const on = (!chosen.size || chosen.has(cell.s)) && test(cell);
      if (on) count++;
      if (on !== (cell.on ?? true)) cell.link.classList.toggle("off", !on);
      cell.on = on;
    }
    const narrowed = asked !== "" || chosen.size > 0;
    const homes = new Map();
    const hide = (element, hidden) => element.hidden === hidden || (element.hidden = hidden);
    const none = (cells) => narrowed && !cells.some((cell) => cell.on);
    let shown = 0;
    for (const one of tables) {
      const { box, rows, cells, homes: own } = one;
      const empty = none(cells);
      hide(box, empty);
      box.classList.toggle("later", !empty && ++shown > AT_ONCE);
      if (!empty) for (const { row, cells: own } of rows) hide(row, none(own));
      if (!empty) stopAt(one, one.stop.on ? one.stop : cells.find((cell) => cell.on));
      for (const home of own) {
        homes.set(home, homes.get(home) || !empty);
        if (narrowed && !empty) home.open = true; // of one that is folded
      }
    }
    for (const [home, shown] of homes) hide(home, !shown);
    requestAnimationFrame(() => tables.forEach(({ box }) => box.classList.remove("later")));
    found.textContent = narrowed ? `${count} of ${data.cells.length} shown` : "";
  };
  search.addEventListener("input", filter);
  for (const chip of document.querySelectorAll(".chip"))
    chip.addEventListener("click", () => {
      const state = chip.dataset.state;
      if (!chosen.delete(state)) chosen.add(state);
      chip.setAttribute("aria-pressed", String(chosen.has(state)));
      filter();
    });

  // ---- keyboard: one stop a grid, arrows inside it ----
  const stops = (table) => [...table.querySelectorAll(".c:not(.off)")].filter((link) => link.offsetParent);
  for (const one of tables) {
    for (const cell of one.cells) cell.link.tabIndex = -1;
    stopAt(one, one.cells[0]);
  }
  const step = (link, key) => {
    const place = link.closest("td");
    if (!place) return null;
    const linksIn = (row, column) => (row.cells[column] ? [...row.cells[column].querySelectorAll(".c:not(.off)")] : []);
    const row = place.parentElement;
    const here = linksIn(row, place.cellIndex);
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (sideways) {
      const beside = here[here.indexOf(link) + sideways];
      if (beside) return beside;
      for (let at = place.cellIndex + sideways; row.cells[at]; at += sideways)
        if (linksIn(row, at).length) return linksIn(row, at).at(sideways > 0 ? 0 : -1);
      return null;
    }
    const sibling = key === "ArrowDown" ? "nextElementSibling" : "previousElementSibling";
    for (let next = row[sibling]; next; next = next[sibling]) {
      const links = next.hidden ? [] : linksIn(next, place.cellIndex);
      if (links.length) return links[Math.min(here.indexOf(link), links.length - 1)];
    }
    return null;
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && current()) {
      leave();
    } else if (/^Arrow/.test(event.key) && event.target.classList.contains("c")) {
      const table = event.target.closest(".grid, .others");
      const all = stops(table);
      const next =
        step(event.target, event.key) ||
        (table.matches(".others") && all[all.indexOf(event.target) + (/Down|Right/.test(event.key) ? 1 : -1)]);
      if (next) {
        event.preventDefault();
        stopAt(tables.find((one) => one.table === table), data.cells[Number(next.dataset.c)]);
        next.focus();
      }
    }
  });

  // ---- a cell's story ----
  const current = () => byAddress.get(location.hash);
  const shelf = document.getElementById("stories");
  let articles = null;
  const articleOf = (cell) => {
    articles = articles || new DOMParser().parseFromString(data.articles, "text/html").querySelectorAll(".story");
    return document.adoptNode(articles[cell.index]);
  };
  let last = null;
  const leave = () => {
    const back = last || current().link;
    history.pushState(null, "", location.pathname);
    open();
    back.focus();
    last = null;
  };
  const copy = (text) => {
    const button = make("button", { type: "button", class: "copy" }, "copy");
    button.addEventListener("click", async () => {
      let done = true;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const area = make("textarea", { readonly: "" });
        area.value = text;
        document.body.append(area);
        area.select();
        done = document.execCommand("copy");
        area.remove();
        button.focus();
      }
      button.textContent = done ? "copied" : "select it and copy";
      setTimeout(() => (button.textContent = "copy"), 2000);
    });
    return button;
  };
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
  const unbroken = (text) => text.split(/( )/).map((word) => (word === " " ? word : make("span", { class: "word" }, word)));
  const command = (text) => make("div", { class: "command" }, make("pre", {}, make("code", {}, ...unbroken(text))), copy(text));
  const linkTo = (name) => {
    const cell = byName.get(name);
    return cell ? make("a", { href: cell.link.hash }, name) : name;
  };
  const byName = new Map(data.cells.map((cell) => [cell.n, cell]));

  // Nix in colours: what is in code, in "a string" and in ''another'', each of which may hold ${code}.
  const IN = {
    code: /(?<c>#[^\n]*|\/\*[^]*?(?:\*\/|$))|(?<open>"|'')|(?<brace>[{}])|(?<k>\b(?:assert|else|if|in|inherit|let|or|rec|then|with)\b(?![-']))|(?<p>(?:\.{0,2}|~)\/[\w.+/-]+|<[\w./-]+>)|(?<n>\b\d+(?:\.\d+)?\b)|(?<a>[A-Za-z_][\w'-]*(?=(?:\.[\w'"-]+)*\s*=(?!=)))|[A-Za-z_][\w'-]*|[^]/y,
    '"': /(?<close>")|(?<into>\$\{)|(?<s>(?:\\[^]|\$(?!\{)|[^"$\\])+|[^])/y,
    "''": /(?<close>''(?!['$\\]))|(?<into>\$\{)|(?<s>(?:''['$]|''\\[^]|'(?!')|\$(?!\{)|[^'$])+|[^])/y,
  };
  const coloured = (text) => {
    const stack = [["code", 0]];
    const found = [];
    for (let at = 0; at < text.length; ) {
      const top = stack.at(-1);
      const pattern = IN[top[0]];
      pattern.lastIndex = at;
      const { 0: part, groups } = pattern.exec(text);
      at = pattern.lastIndex;
      let kind = Object.keys(groups).find((name) => groups[name] !== undefined) || "";
      if (kind === "open") stack.push([part, 0]);
      else if (kind === "close") stack.pop();
      else if (kind === "into") stack.push(["code", 0]);
      else if (part === "{" && kind) top[1]++;
      else if (part === "}" && kind && top[1]) top[1]--;
      else if (part === "}" && kind && stack.length > 1) {
        stack.pop();
        kind = "into";
      }
      kind = { open: "s", close: "s", into: "k", brace: "" }[kind] ?? kind;
      if (found.length && found.at(-1)[0] === kind) found.at(-1)[1] += part;
      else found.push([kind, part]);
    }
    return found;
  };
  const recipe = (cell) => {
    const text = cell.r.map((part) => data.words[part]).join("\n\n").replaceAll("\x01", cell.n);
    const parts = text.length > 200000 ? [["", text]] : coloured(text);
    const code = make("code", {});
    for (const [kind, part] of parts) code.append(kind ? make("span", { class: `x-${kind}` }, part) : part);
    return make("pre", { tabindex: "0", role: "region", "aria-label": "Recipe" }, code);
  };
  const fill = (cell) => {
    if (cell.article) return;
    cell.article = articleOf(cell);
    cell.article.classList.add("open");
    cell.article.removeAttribute("id");
    const parts = [];
    const title = (text) => parts.push(make("h4", {}, text));
    const name = quoted(cell.n);
    title("Commands");
    const run = (verb) => command(`torchsmith ${verb}${data.where} ${name}`);
    if (!cell.f) parts.push(...mine.commands.map((words) => command(words.replaceAll("{name}", name))), run("show"));
    else {
      if (cell.s === "unhashed") parts.push(run("fix-hashes"));
      parts.push(run("build"), command(`nix-build ${quoted(data.folder ? `${data.folder}/${cell.f}` : cell.f)}`));
      parts.push(run("verify"));
      if (cell.s === "failed") parts.push(run("runs log"), run("diagnose"));
    }
    const notes = (cell.w || []).map((index) => data.findings[index]).filter((one) => one[1] === "note");
    if (notes.length) {
      title("What could be better");
      parts.push(make("ul", {}, ...notes.map((one) => make("li", {}, make("b", { class: "f-note" }, `${one[0]} `), one[2]))));
    }
    if (cell.l) {
      title("End of its log");
      const text = cell.l.map((index) => data.words[index]).join("\n");
      parts.push(make("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "Log" }, text));
    }
    if (cell.r) {
      title("Recipe");
      parts.push(recipe(cell));
    }
    cell.article.append(...parts);
  };
  const open = () => {
    const cell = current();
    shelf.replaceChildren();
    if (!cell) return;
    fill(cell);
    shelf.append(cell.article);
    cell.article.scrollTop = 0;
    cell.article.querySelector("h3").focus();
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    if (link.matches(".c")) last = link;
    if (link.matches(".close")) {
      event.preventDefault();
      leave();
    }
  });
  window.addEventListener("hashchange", open);
  open();

  // ---- which one is mine? ----
  const BOXES = ["gpu", "system", "cpu", "driver", "python", "workload"];
  const box = (name) => document.getElementById(name);
  const machine = () => mine.products[box("gpu").value];
  const put = (name, options) => {
    box(name).replaceChildren(...options);
    box(name).disabled = box(name).querySelectorAll("option").length < 2;
  };
  const offerCpus = () => {
    const system = box("system").value;
    const makers = new Map();
    for (const value of machine().systems[system]) {
      const [label, maker] = mine.cpus[value] || ["another or unknown", ""];
      makers.set(maker, [...(makers.get(maker) || []), make("option", { value }, label)]);
    }
    put("cpu", [...makers].flatMap(([maker, options]) => (maker ? [make("optgroup", { label: maker }, ...options)] : options)));
  };
  const offerMachines = () => {
    put("system", Object.keys(machine().systems).map((system) => make("option", { value: system }, system)));
    offerCpus();
    const { drivers, ends } = machine();
    const range = (driver, place) => {
      const next = drivers[place + 1];
      if (!place) return driver;
      if (!next) return ends ? driver : `${driver} or newer`;
      return driver + (next - 1 > driver ? ` to ${next - 1}` : "");
    };
    const options = drivers.map((driver, place) => make("option", { value: driver }, range(driver, place)));
    put("driver", [make("option", { value: "" }, drivers.length ? "unknown" : "not asked"), ...options.reverse()]);
  };
  box("gpu").addEventListener("change", offerMachines);
  box("system").addEventListener("change", offerCpus);
  offerMachines();
  const answer = () => {
    const product = box("gpu").selectedOptions[0].text.replace(/ \(\w+\)$/, "");
    const text = (index) => mine.words[index].replaceAll("{gpu}", product);
    const [gpu, system, cpu, driver, python, workload] = BOXES.map((name) => box(name).value);
    const place = driver ? machine().drivers.indexOf(driver) + 1 : 0;
    const [cpus, rows] = mine.table[gpu];
    const [builds, offered] = rows[cpus[cpu]][place];
    const column = mine.pythons.indexOf(python) + 1;
    const [name, lines, idle] = mine.builds[builds[column][mine.workloads.indexOf(workload)]];
    const wheels = mine.wheels[offered[column]];
    const list = (lines) => make("ul", {}, ...lines.map((line) => make("li", {}, text(line))));
    const cell = byName.get(name) || {};
    const first = !idle && ["verified", "published"].includes(cell.s); // before the wheels
    const warnings = (cell.w || []).map((index) => data.findings[index]).filter((one) => one[1] !== "note");
    const remarks = warnings.map((one) => make("p", { class: `f-${one[1]}` }, `${one[1]} ${one[0]}: ${one[2]}`));
    const commands = mine.commands.map((words) => command(words.replaceAll("{name}", name)));
    const offers = wheels.map(([pip, when, newer, title, ...facts]) => {
      const other = mine.words[newer] ? [make("p", {}, text(when)), command(text(newer))] : [];
      return make("div", { class: "answer" }, make("h3", {}, text(title)), list(facts), command(text(pip)), ...other);
    });
    const kind = warnings.length ? "answer doubtful" : "answer";
    const heading = make("h3", {}, "Compiled for it: ", linkTo(name));
    const build = () => make("div", { class: kind }, heading, ...remarks, list(lines), ...commands);
    const own = name ? build() : make("p", {}, text(lines[0]));
    const asked = [`torchsmith pick${data.where}`, cpu === system ? `--system ${system}` : `--cpu ${cpu}`];
    if (machine().gpu) asked.push(`--gpu ${/^(gfx|none)/.test(machine().gpu) ? machine().gpu : quoted(product)}`);
    if (/^\d/.test(driver)) asked.push(`--driver ${driver}`);
    if (python) asked.push(`--python ${python}`);
    if (workload !== mine.workloads[0]) asked.push(`--workload ${workload}`);
    box("answer").replaceChildren(
      ...(first ? [own, ...offers] : [...offers, own]),
      make("p", {}, "Why not another one, and what could be made that suits better:"),
      command([...asked, "--explain"].join(" "))
    );
  };
  for (const name of BOXES) box(name).addEventListener("change", answer);
  box("more").open = matchMedia("(min-width: 40rem)").matches;
  const asked = document.querySelector("#mine > .command");
  asked.append(copy(asked.textContent.trim()));
  answer(); // an example, until something else is chosen
  document.documentElement.classList.add("scripted");
})();
