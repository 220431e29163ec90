Object.defineProperty(exports, '__esModule', { value: true });
exports.setupPlugin = exports.processEvent = void 0;

const form = /^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([^+]+))?(?:\+(.+))?$/;

function setupPlugin(meta) {
  meta.global.names = meta.config.properties
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}
exports.setupPlugin = setupPlugin;

async function processEvent(event, { global }) {
  if (!event.properties) return event;
  for (const name of global.names) {
    const found = form.exec(event.properties[name]);
    if (!found) continue;
    const [, major, minor, patch, preRelease, build] = found;
    event.properties[`${name}__major`] = Number(major);
    event.properties[`${name}__minor`] = Number(minor);
    if (patch !== undefined) event.properties[`${name}__patch`] = Number(patch);
    if (preRelease !== undefined) event.properties[`${name}__preRelease`] = preRelease;
    if (build !== undefined) event.properties[`${name}__build`] = build;
  }
  return event;
}
exports.processEvent = processEvent;
