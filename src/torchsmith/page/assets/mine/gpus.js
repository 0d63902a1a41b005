// GPUs out of text: every form of nvidia-smi's output, the driver's file, lspci and AMD's tools.
const gpuReports = (R, { fact, text, facts, note, sameNote, gpuFacts, driverOf, smOf }) => {
  const { strip, lines, quote, pattern, search, match, full, every, parts, sorted } = pythonText;
  const N = R.nvidia;
  const absent = (value) => pattern(R.absent, "iu").test(value);
  const address = (words) => ((search(N.address, words) || [])[1] || "").toLowerCase();
  const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
  const value = (name, report) => {
    const found = search(N[name], report);
    const plain = strip((found ? found[1] : "").replace(/&(amp|lt|gt|quot|apos);/g, (_, word) => ENTITIES[word]));
    return absent(plain) ? "" : plain;
  };
  const describedGpu = (form, section, source, notes) => {
    const place = address(match(N[`${form} place`], section)[0]);
    const memory = every(N[`${form} memory`], section).map((found) => Number(found[1]));
    const [name, mig] = [value(`${form} name`, section), value(`${form} mig`, section)];
    if (!name) notes.push(note(source, `gives no name for the GPU at ${place || "an unknown address"}`));
    return gpuFacts({
      name: text(name, source),
      generation: text(value(`${form} generation`, section), source),
      memory_mib: memory.length ? fact(Math.max(...memory), source) : null,
      mig: mig ? fact(mig === "Enabled", source) : null,
      address: place,
    });
  };
  const readDescribed = (form) => (report, source) => {
    const [head, ...sections] = parts(N[`${form} gpu`], report);
    const notes = [];
    const gpus = sections.map((section) => describedGpu(form, section, source, notes));
    const attached = value(`${form} attached`, head);
    if (/^\d+$/.test(attached) && Number(attached) !== gpus.length)
      notes.push(note(source, `announces ${attached} GPUs and describes ${gpus.length}: the rest is cut`));
    const driver = driverOf(value(`${form} driver`, head), source, notes);
    return facts({ driver, gpus: gpus.length || attached === "0" ? fact(gpus, source) : null, notes });
  };
  const csvRows = (report) => {
    const rows = [];
    let [row, cell, quoted, began] = [[], "", false, false];
    for (const line of lines(report)) {
      for (let at = 0; at < line.length; at++) {
        const sign = line[at];
        if (quoted && sign === '"' && line[at + 1] === '"') cell += line[at++];
        else if (quoted && sign === '"') quoted = false;
        else if (quoted) cell += sign;
        else if (sign === '"' && cell === "" && !began) quoted = began = true;
        else if (sign === ",") {
          row.push(cell);
          [cell, began] = ["", false];
        } else cell += sign;
      }
      if (quoted) continue;
      if (line !== "" || row.length) rows.push([...row, cell]);
      [row, cell, began] = [[], "", false];
    }
    if (quoted) rows.push([...row, cell]);
    return rows.filter((one) => one.some(Boolean)).map((one) => one.map(strip));
  };
  const readCsv = (report, source) => {
    let rows = csvRows(report);
    const notes = [];
    const names = rows.length ? rows[0].map((cell) => cell.replace(pattern(N.unit, "u"), "")) : [];
    const header = names.some((name) => R.columns.includes(name)) ? names : [];
    if (header.length) rows = rows.slice(1);
    const [gpus, drivers] = [[], []];
    for (const row of rows) {
      if (header.length && row.length !== header.length) {
        notes.push(note(source, `a row is cut and was not used: ${[...row.join(", ")].slice(0, 60).join("")}`));
        continue;
      }
      const cells = new Map(header.length ? header.map((label, at) => [label, row[at]]) : row.flatMap(byForm));
      const [gpu, driver] = csvGpu(cells, source, notes);
      if (driver) drivers.push(driver);
      if (gpu.name || gpu.sm || gpu.memory_mib || gpu.mig || gpu.address) gpus.push(gpu);
    }
    if (!gpus.length && !drivers.length)
      return facts({ notes: [...notes, note(source, "holds no GPU that could be read")] });
    return facts({
      driver: drivers.length ? sorted(drivers, (one) => one.value)[0] : null,
      gpus: gpus.length ? fact(gpus, source) : null,
      notes,
    });
  };
  const byForm = (cell) => {
    const form = R.by_form.find(([, source]) => full(source, cell));
    if (form) return [[form[0], cell]];
    return /[A-Za-z]/.test(cell) && !R.no_names.some((start) => cell.startsWith(start)) ? [["name", cell]] : [];
  };
  const csvGpu = (cells, source, notes) => {
    const said = new Map();
    for (const [label, value] of cells)
      if (absent(value)) notes.push(note(source, `gives no ${label}`));
      else said.set(label, value);
    const name = said.get("name") || said.get("gpu_name");
    const capability = said.get("compute_cap") || "";
    const memory = /^(\d+)/.exec(said.get("memory.total") || "");
    const mig = said.get("mig.mode.current");
    const sm = smOf(capability);
    if (capability && sm === null) notes.push(note(source, `${quote(capability)} is no compute capability`));
    const gpu = gpuFacts({
      name: text(name, source),
      sm: sm === null ? null : fact(sm, source),
      memory_mib: memory ? fact(Number(memory[1]), source) : null,
      mig: mig ? fact(mig === "Enabled", source) : null,
      address: address(said.get("pci.bus_id") || said.get("gpu_bus_id") || ""),
    });
    return [gpu, driverOf(said.get("driver_version") || "", source, notes)];
  };
  const readList = (report, source) => {
    const gpus = [];
    for (const line of lines(report)) {
      const found = match(N["list gpu"], line);
      if (found) gpus.push(gpuFacts({ name: fact(found[1], source) }));
      else if (gpus.length && match(N["list mig"], line)) gpus.at(-1).mig = fact(true, source);
    }
    return facts({ gpus: fact(gpus, source) });
  };
  const readTable = (report, source) => {
    const notes = [];
    const driver = search(N["table driver"], report);
    const gpus = every(N["table gpu"], report).map((row) => {
      const name = strip(row[1]);
      if (name.endsWith("...")) notes.push(note(source, `cuts the name ${quote(name)}: nvidia-smi -q has it whole`));
      return gpuFacts({ name: fact(name, source), address: address(row[2]) });
    });
    if (driver && !gpus.length) notes.push(note(source, R.cut_table));
    const version = driver ? driverOf(driver[1], source, notes) : null;
    return facts({ driver: version, gpus: gpus.length ? fact(gpus, source) : null, notes });
  };
  const SHAPES = {
    none: (report, source) => facts({ gpus: fact([], source) }),
    xml: readDescribed("xml"),
    query: readDescribed("query"),
    list: readList,
    table: readTable,
    csv: readCsv,
  };
  const readNvidiaSmi = (report, source) => {
    const failure = R.failures.find(([words]) => report.includes(words));
    if (failure) return facts({ notes: [note(source, failure[1])] });
    if (search(R.absent_tool, report)) {
      const words = "is not installed there: taken as a machine without an NVIDIA GPU";
      return facts({ gpus: fact([], source), notes: [note(source, words)] });
    }
    const [shape] = R.shapes.find(([, source]) => search(source, report)) || ["csv"];
    return SHAPES[shape](report, source);
  };
  const readDriverFile = (report, source) => {
    const found = search(N["driver file"], `${report}\n`);
    if (!found) return facts({ notes: [note(source, "names no driver version")] });
    const notes = [];
    return facts({ driver: driverOf(found[1], source, notes), notes });
  };

  const readLspci = (report, source) => {
    const [gpus, notes] = [[], []];
    for (const [, slot, words] of every(R.pci["lspci gpu"], report)) {
      if (words.startsWith("NVIDIA")) {
        const name = search(R.pci["lspci name"], words);
        gpus.push(gpuFacts({ name: name ? fact(name[1], source) : null, address: slot.slice(-7) }));
      } else {
        const maker = match(R.pci["lspci maker"], words);
        const one = note(source, `lists a GPU of ${maker ? maker[1] : words}: ${R.other_gpus}`);
        if (!notes.some(sameNote(one))) notes.push(one);
      }
    }
    return facts({ gpus: fact(gpus, source), notes });
  };
  const readAmdTool = (report, source) =>
    facts({ gpus: fact([], source), notes: [note(source, `lists AMD's GPUs: ${R.other_gpus}`)] });
  return { readNvidiaSmi, readDriverFile, readLspci, readAmdTool };
};
