/** What the schedule is tried over. */

export const zones = [
  'UTC',
  'America/New_York',
  'Europe/London',
  'Australia/Lord_Howe',
  'America/Sao_Paulo',
  'Asia/Beirut',
  'Africa/Casablanca',
  'Pacific/Apia',
  'Asia/Kathmandu',
  'America/Havana',
  'Africa/Cairo',
  'Antarctica/Casey',
  'Asia/Gaza',
] as const;

export const firstYear = 1970;
export const lastYear = 2100;
