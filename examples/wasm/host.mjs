// What a module of lars-scheduler needs of its host: two clocks, and a call when something is due.
export async function load(source) {
  let turn;
  const host = {
    now: () => performance.now(),
    since_epoch: () => Date.now(),
    call_turn: (milliseconds, call) => setTimeout(() => turn(call), milliseconds),
  };
  const { instance } = await WebAssembly.instantiate(await source, { host });
  turn = instance.exports.turn;
  return instance.exports;
}
