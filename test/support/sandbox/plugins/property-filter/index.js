async function setupPlugin({ config, global }) {
  if (!config.properties) {
    throw new Error('No properties found to filter');
  }
  global.propertiesToFilter = config.properties.split(',').map((name) => name.trim());
}

async function processEvent(event, { global }) {
  const { properties } = event;
  for (const name of global.propertiesToFilter) {
    if (properties && Object.hasOwn(properties, name)) {
      delete properties[name];
    } else if (name === '$ip') {
      event.ip = null;
    }
  }
  return event;
}

module.exports = { setupPlugin, processEvent };
