/** One hour, however many rows. */
export const interval = {
  start: Date.parse('2024-03-01T00:00:00Z'),
  end: Date.parse('2024-03-01T01:00:00Z'),
};

/** The team whose rows are exported. */
export const teamId = 1;
