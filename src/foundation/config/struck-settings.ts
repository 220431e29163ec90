/** Settings that are no longer there, each with what to use instead. */
const struckSettings = {
  FRESHNESS_MINUTES:
    'Set deadline_minutes or deadline_at of exports. Without a deadline, data is late after two intervals and six minutes.',
  MAIL_TRUSTED_DOMAINS: 'List addresses and domains in MAIL_RECIPIENTS.',
  MAX_EMAILS_PER_HOUR:
    'Remove it. Mail goes only to MAIL_RECIPIENTS, at most 20 of a type of event within five minutes.',
};

/** Returns a sentence for each variable that was a setting and is none any more. */
export function findStruckSettings(
  env: Readonly<Record<string, string | undefined>> = process.env,
): readonly string[] {
  return Object.entries(struckSettings)
    .filter(([name]) => env[name])
    .map(([name, instead]) => `${name} is no longer a setting and does nothing. ${instead}`);
}
