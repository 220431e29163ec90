import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { hasPromtool, promtoolNote, runPromtool } from '../../support/promtool.ts';

const folder = path.resolve(import.meta.dirname, '../../../deploy/prometheus');
const read = (name: string) => readFileSync(path.join(folder, name), 'utf8');

interface RuleTest {
  readonly alertname: string;
  readonly exp_alerts: readonly unknown[];
}

const { groups } = parse(read('alerts.yml')) as {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string }[] }[];
};
const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
const { tests } = parse(read('alerts.test.yml')) as {
  readonly tests: readonly { readonly alert_rule_test: readonly RuleTest[] }[];
};

test('each alert has a test in which it fires, not at first, and is silent if all is fine', () => {
  const [fine, ...broken] = tests.map((one) => one.alert_rule_test);
  expect(fine?.map(({ alertname }) => alertname)).toEqual(alerts);
  expect(fine?.flatMap((one) => one.exp_alerts)).toEqual([]);
  const looks = broken.map((all) => all.map((one) => [one.alertname, one.exp_alerts.length]));
  expect(looks).toEqual(
    alerts.map((alert) => [
      [alert, 0],
      [alert, 1],
    ]),
  );
});

describe.runIf(hasPromtool)(`promtool${promtoolNote}`, () => {
  test('accepts the rules and the scrape example', () => {
    expect(runPromtool(['check', 'rules', 'alerts.yml'], { folder })).toMatchObject({ code: 0 });
    expect(runPromtool(['check', 'config', 'prometheus.yml'], { folder })).toMatchObject({
      code: 0,
    });
  });

  test('finds that each alert fires when it should, with its text, and not else', () => {
    const { code, output } = runPromtool(['test', 'rules', 'alerts.test.yml'], { folder });
    expect([code, output]).toEqual([0, expect.stringContaining('SUCCESS')]);
  });
});
