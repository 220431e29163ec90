export function processEvent(event) {
  if (event.properties && event.timestamp && !Number.isNaN(Date.parse(event.timestamp))) {
    const date = new Date(event.timestamp);
    event.properties.day_of_the_week = date.toLocaleDateString('en-GB', { weekday: 'long' });
    const [day, month, year] = date.toLocaleDateString('en-GB').split('/');
    Object.assign(event.properties, { year, month, day });
    event.properties.hour = date.getHours();
    event.properties.minute = date.getMinutes();
  }
  return event;
}
