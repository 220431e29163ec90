let pattern;

export function setupPlugin({ config }) {
  try {
    pattern = new RegExp(config.pattern);
  } catch {
    throw new Error(`Invalid regex ${config.pattern}`);
  }
}

export function processEvent(event, { config }) {
  if (!event.properties?.$pathname) return event;
  const { matchGroup, valueGroup, property, replacePattern, replaceKey, replaceValue } = config;
  const found = event.properties.$pathname.match(pattern);
  if (found?.[matchGroup]) {
    event.properties[property] = found[valueGroup];
    if (replacePattern) {
      event.properties[replaceKey] = event.properties.$pathname.replace(
        new RegExp(replacePattern),
        replaceValue,
      );
    }
  }
  return event;
}
