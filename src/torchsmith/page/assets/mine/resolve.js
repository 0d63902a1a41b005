// What the catalog makes of what reports said: architectures by name, CPUs by number, contradictions.
const catalogResolver = (rules, { fact, note, sameNote, noting, label }) => {
  const { split, once } = pythonText;
  const isaMissing = (isa, features) => rules.isas[isa].needs.filter((word) => !features.has(word));
  const cpuMatches = (id, wanted) =>
    id.length >= wanted.length &&
    wanted.every((pattern, at) => {
      const bounds = /^(\d+)-(\d+)$/.exec(pattern);
      if (!bounds) return id[at] === pattern;
      return /^\d+$/.test(id[at]) && Number(bounds[1]) <= Number(id[at]) && Number(id[at]) <= Number(bounds[2]);
    });
  const resolveCpu = (known) => {
    const found = known.cpu_id && rules.cpus.find((cpu) => cpu[4].some((id) => cpuMatches(known.cpu_id.value.split("/"), id)));
    if (found) return { ...known, microarchitecture: fact(found[0], `${known.cpu_id.source}, ${known.cpu_id.value}`) };
    const said = known.microarchitecture;
    if (!said || rules.cpus.some((cpu) => cpu[0] === said.value)) return known;
    const named = rules.cpus.find((cpu) => cpu[5] === said.value);
    return named ? { ...known, microarchitecture: fact(named[0], said.source) } : known;
  };
  const cpuOf = (known) => known.microarchitecture && rules.cpus.find((cpu) => cpu[0] === known.microarchitecture.value);
  const featuresOfCpu = (known) => {
    const cpu = cpuOf(known);
    if (!cpu) return known;
    const source = `${rules.catalog}, by ${cpu[0]}`;
    const system = known.system || (cpu[6] ? null : fact(cpu[2], source));
    if (known.features || known.cpu_id) return { ...known, system };
    const features = new Set(cpu[3].flatMap((isa) => rules.isas[isa].needs));
    return { ...known, system, features: fact(features, source) };
  };
  const checkFeatures = (known) => {
    if (!known.features || !known.system) return known;
    const has = (marks) => marks.some((mark) => known.features.value.has(mark));
    const words = rules.kinds[known.system.value];
    const others = Object.keys(rules.kinds).filter((system) => has(rules.kinds[system]));
    if (!words || has(words) || !others.length) return known;
    const told = `lists features of ${others[0]}, but ${known.system.source} says ${known.system.value}: the features are not used`;
    return noting({ ...known, features: null }, known.features.source, told);
  };
  const checkHidden = (known) => {
    const cpu = cpuOf(known);
    if (!cpu || !known.features) return known;
    const hidden = cpu[3].filter((isa) => isaMissing(isa, known.features.value).length);
    if (!hidden.length) return known;
    const words = `this ${cpu[1]} CPU does not show what ${hidden.join(", ")} need, as a virtual machine or the BIOS may hide it: what it shows is used`;
    return noting(known, known.features.source, words);
  };
  const wordsOf = (name) => name.toLowerCase().match(/[a-z0-9]+/g) || [];
  const listed = (field) =>
    Object.entries(rules.gpus).flatMap(([sm, gpu]) => gpu[field].map((part) => [wordsOf(part), Number(sm)]));
  const [products, virtual] = [listed("parts"), listed("vgpus")];
  const at = (words, part, place) => part.every((word, index) => words[place + index] === word);
  const findWords = (words) => {
    const spots = [];
    for (const [part, sm] of products)
      for (let place = 0; place + part.length <= words.length; place++)
        if (at(words, part, place)) spots.push([place, place + part.length, sm]);
    for (const [part, sm] of virtual)
      for (let place = 0; place + part.length < words.length; place++)
        if (at(words, part, place) && /^\d+[a-z]*$/.test(words[place + part.length]))
          spots.push([place, place + part.length + 1, sm]);
    const inside = (one, other) => other[1] - other[0] > one[1] - one[0] && other[0] <= one[0] && one[1] <= other[1];
    let whole = once(spots.filter((one) => !spots.some((other) => inside(one, other))).map((one) => one[2]));
    if (!whole.length)
      whole = once(products.filter(([part]) => part.join("") === words.join("")).map(([, sm]) => sm));
    return whole.length === 1 ? whole[0] : null;
  };
  const gpuOfName = (name) => {
    if (!name.endsWith("..")) return findWords(wordsOf(name));
    const [, start, cutWord] = /^([^]*?)([A-Za-z0-9]*)\.{2,}$/.exec(name);
    const words = wordsOf(start);
    const sm = findWords(words);
    if (sm === null) return null;
    for (const [part, other] of products) {
      if (other === sm) continue;
      for (let count = 1; count < part.length; count++)
        if (count <= words.length && at(words.slice(-count), part.slice(0, count), 0) && part[count].startsWith(cutWord.toLowerCase()))
          return null;
    }
    return sm;
  };
  const sameGeneration = (said, known) =>
    said ? split(said)[0].toLowerCase() === split(known)[0].toLowerCase() : true;
  const resolveGpu = (gpu, notes) => {
    const named = gpu.name ? gpuOfName(gpu.name.value) : null;
    if (gpu.sm) {
      if (named !== null && named !== gpu.sm.value)
        notes.push(note(gpu.sm.source, `says sm${gpu.sm.value} for ${label(gpu)}, ${rules.catalog} lists it as sm${named}: the former is used`));
      return gpu;
    }
    if (named === null) {
      notes.push(note(rules.catalog, `does not know ${label(gpu)}: its architecture is unknown`));
      return gpu;
    }
    const known = rules.gpus[named].generation;
    const said = gpu.generation ? gpu.generation.value : known;
    if (!sameGeneration(said, known)) {
      const words = `calls ${label(gpu)} ${said}, which ${rules.catalog} does not: its architecture is unknown`;
      notes.push(note(gpu.generation ? gpu.generation.source : rules.catalog, words));
      return gpu;
    }
    return { ...gpu, sm: fact(named, `${rules.catalog}, by the name ${label(gpu)}`) };
  };
  const smsOf = (known) =>
    known.gpus ? once(known.gpus.value.filter((gpu) => gpu.sm).map((gpu) => gpu.sm.value)).sort((a, b) => a - b) : null;
  const systemOfGpus = (known) => {
    for (const sm of smsOf(known) || []) {
      const gpu = rules.gpus[sm];
      if (!gpu) continue;
      if (!known.system && gpu.platforms.length === 1)
        known = { ...known, system: fact(gpu.platforms[0], `${rules.catalog}, by sm${sm}`) };
      else if (known.system && !gpu.platforms.includes(known.system.value)) {
        const words = `says ${known.system.value}, but sm${sm} (${gpu.title}) is found on ${gpu.platforms.join(" and ")} alone`;
        known = noting(known, known.system.source, words);
      }
    }
    return known;
  };
  const resolve = (said) => {
    const known = checkHidden(checkFeatures(featuresOfCpu(resolveCpu(said))));
    if (!known.gpus) return known;
    const notes = [...known.notes];
    const gpus = known.gpus.value.map((gpu) => resolveGpu(gpu, notes));
    const distinct = notes.filter((one, place) => notes.findIndex(sameNote(one)) === place);
    return systemOfGpus({ ...known, gpus: fact(gpus, known.gpus.source), notes: distinct });
  };
  return { resolve, smsOf, isaMissing };
};
