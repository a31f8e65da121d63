// Types four letters, looks at what the page shows until everything has happened, and closes it.
// Resolves with what it saw; throws if something was early, or happened too often.
export async function play(module, show = () => {}) {
  const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  const see = () => {
    const names = ['ticks', 'searches', 'length', 'heard', 'silences', 'early'];
    const seen = Object.fromEntries(names.map((name, n) => [name, module.page_shows(n)]));
    show(seen);
    return seen;
  };
  if (module.page_open() !== 1) throw new Error('the page did not open');
  for (let length = 1; length <= 4; length++) {
    if (module.page_typed(length) !== 1) throw new Error('typing was refused');
  }
  if (see().searches !== 0) throw new Error('it searched before anybody had stopped typing');
  let seen = see();
  while (seen.ticks < 5 || seen.silences < 1) {
    await wait(20);
    seen = see();
  }
  const { searches, length, heard, silences, early } = seen;
  const expected = [1, 4, 1, 1, 0];
  const found = [searches, length, heard, silences, early];
  if (String(found) !== String(expected)) throw new Error(`saw ${found}, not ${expected}`);
  if (module.page_close() !== 0) throw new Error('an actor is left');
  const { ticks } = see();
  await wait(250);
  if (see().ticks !== ticks) throw new Error('it ticks after it was closed');
  return seen;
}
