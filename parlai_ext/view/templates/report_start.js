
  // ------------------------------------------------- start
  function fill(select, options, key) {
    options.forEach(([value, label]) => {
      const option = make('option', '', label);
      option.value = value;
      select.append(option);
    });
    select.addEventListener('change', () => change({ [key]: select.value }));
  }
  const distinct = (values) => [...new Set(data.dialogues.flatMap(values))];
  const options = (values) => [['', 'all'], ...values.map((v) => [v, v])];

  function showFilters() {
    by('filter-text').value = state.q;
    [['filter-target', 'target'], ['filter-partner', 'partner'], ['filter-which', 'which'], ['sort', 'sort']].forEach(([id, key]) => {
      by(id).value = state[key];
      if (by(id).selectedIndex < 0) { by(id).value = ''; state[key] = ''; }  // a name of another run
    });
  }

  function showAddress() {
    readAddress();
    showFilters();
    showView();
    showDialogues();
    const place = anchor && by(anchor);
    if (place) place.scrollIntoView();
  }

  if (by('choose-scorer')) {
    fill(by('choose-scorer'), data.scorers.map((one) => [one.id, one.name]), 'scorer');
  }
  fill(by('filter-target'), options(distinct((d) => speakerPairs(d).map((s) => s[0]))), 'target');
  fill(by('filter-partner'), options(distinct((d) => speakerPairs(d).map((s) => s[1]))), 'partner');
  fill(by('filter-which'), options([...Object.keys(isOf), ...distinct((d) => d.why || [])]), 'which');
  fill(by('sort'), Object.entries(SORTS), 'sort');
  by('filter-text').addEventListener('input', () => change({ q: by('filter-text').value }));
  by('filters').addEventListener('submit', (event) => event.preventDefault());
  by('page-before').addEventListener('click', () => turnPage(-1));
  by('page-after').addEventListener('click', () => turnPage(1));
  by('browser').addEventListener('keydown', onKey);
  by('save-dialogues-csv').addEventListener('click', () => save('dialogues.csv', 'text/csv', dialoguesCsv()));
  by('save-dialogues-jsonl').addEventListener('click', () => save('dialogues.jsonl', 'application/jsonl', dialoguesJsonl()));
  by('save-leaderboard').addEventListener('click', () => save('leaderboard.csv', 'text/csv', scorer().leaderboard.join('')));
  by('save-pairs').addEventListener('click', () => save('pairs.csv', 'text/csv', csv(scorer().pairs)));
  // a link within the page keeps what is chosen
  document.querySelectorAll('nav a').forEach((link) => link.addEventListener('click', (event) => {
    event.preventDefault();
    anchor = link.getAttribute('href').slice(1);
    writeAddress();
    if (by(anchor)) by(anchor).scrollIntoView();
  }));
  addEventListener('hashchange', showAddress);
  by('browser').hidden = false;
  showAddress();
