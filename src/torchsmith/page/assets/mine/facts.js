// What is known of a machine: every fact with its source, and notes of what was not used.
const machineFacts = (rules) => {
  const { full, quote } = pythonText;
  class Unread extends Error {}
  const fact = (value, source) => ({ value, source });
  const text = (value, source) => (value ? fact(value, source) : null);
  const FIELDS = "system cpu_name cpu_id microarchitecture features driver gpus os glibc memory_mib".split(" ");
  const nothing = () => ({ ...Object.fromEntries(FIELDS.map((field) => [field, null])), notes: [] });
  const facts = (more) => ({ ...nothing(), ...more });
  const note = (source, words) => ({ source, words });
  const sameNote = (one) => (other) => one.source === other.source && one.words === other.words;
  const noting = (known, source, words) =>
    known.notes.some(sameNote(note(source, words))) ? known : { ...known, notes: [...known.notes, note(source, words)] };
  const gpuFacts = (more) => ({ name: null, sm: null, memory_mib: null, generation: null, mig: null, address: "", ...more });
  const label = (gpu) => (gpu.name ? gpu.name.value : gpu.sm ? `sm${gpu.sm.value}` : "a GPU without a name");

  const driverOf = (words, source, notes) => {
    if (!words) return null;
    if (full(rules.reports.driver, words)) return fact(words.split(".").map(Number), source);
    notes.push(note(source, `${quote(words)} is no driver version`));
    return null;
  };
  const driverText = (version) => {
    const width = version.length > 2 && version[1] > 9 ? 2 : 1;
    return version.map((part, place) => String(part).padStart(place === 2 ? width : 1, "0")).join(".");
  };
  const smOf = (words) => {
    const dotted = full(rules.reports.capability, words);
    if (dotted) return Number(dotted[1]) * 10 + Number(dotted[2]);
    const plain = full(rules.reports.architecture, words);
    return plain ? Number(plain[1]) : null;
  };
  return { Unread, FIELDS, fact, text, nothing, facts, note, sameNote, noting, gpuFacts, label, driverOf, driverText, smOf };
};
