export function setupPlugin({ config, global }) {
  const percentage = Number.parseFloat(config.percentage);
  if (Number.isNaN(percentage) || percentage < 0 || percentage > 100) {
    throw new Error('Percentage must be a number between 0 and 100');
  }
  global.percentage = percentage;
  global.events = new Set((config.triggeringEvents ?? '').split(',').filter(Boolean));
}

export function processEvent(event, { global }) {
  if (global.events.size > 0 && !global.events.has(event.event)) return event;
  return Math.random() * 100 < global.percentage ? event : null;
}
