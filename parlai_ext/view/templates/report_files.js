
  // ------------------------------------------------- files made in the page
  function save(name, type, text) {
    const link = make('a');
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // a spreadsheet takes a cell that starts so for a formula
  const FORMULA = /^ *[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/;
  function csvCell(value) {
    if (value === null || value === undefined) return '';
    if (typeof value !== 'string') return String(value);
    const line = value.replace(/\n/g, '\u240a').replace(/\t/g, '\u2409').replace(/\r/g, '\u240d');
    const safe = FORMULA.test(value) ? "'" + line : line;
    return /[",]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
  }
  const csv = (rows) => rows.map((row) => row.map(csvCell).join(',') + '\n').join('');
  const numberOrNull = (v) => typeof v === 'number' ? v : null;

  // a row for each utterance, one without a place for scores of the whole dialogue
  function dialogueRows(d) {
    const rows = [], names = scorer().dimensions, scored = scoredBy(d);
    const add = (index, name, given, text, scores) => rows.push([d.id, d.target, d.partner, d.opener, index, name, given, text,
      ...names.map((_, k) => numberOrNull(scores[k])), [...new Set(scores.filter((v) => typeof v === 'string'))].join('; ') || null]);
    d.turns.forEach((t, k) => add(k, speaker(d, t), t.given, t.text, scoredTurn(d, k).scores));
    if (scored && scored.whole.length) add(null, d.target, null, null, scored.whole);
    if (scored && scored.whole_partner.length) add(null, d.partner, null, null, scored.whole_partner);
    return rows;
  }

  function dialoguesCsv() {
    const head = ['dialogue_id', 'target', 'partner', 'opener_id', 'utterance_index', 'speaker', 'given', 'text'];
    return csv([[...head, ...scorer().dimensions, 'reason'], ...matching.flatMap(dialogueRows)]);
  }

  function dialoguesJsonl() {
    const names = scorer().dimensions;
    const scores = (values) => Object.fromEntries(names.map((name, k) => [name, numberOrNull(values[k])]));
    return matching.map((d) => JSON.stringify({
      dialogue_id: d.id, target: d.target, partner: d.partner, opener_id: d.opener, ended_by: d.ended_by, reason: d.reason,
      scorer: scorer().name, means: scores((scoredBy(d) || { means: [] }).means),
      partner_means: scores((scoredBy(d) || { partner_means: [] }).partner_means),
      utterances: d.turns.map((t, k) => ({ speaker: speaker(d, t), text: t.text, given: t.given, scores: scores(scoredTurn(d, k).scores) })),
    }) + '\n').join('');
  }
