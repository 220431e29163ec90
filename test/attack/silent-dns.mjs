import { promises as dns } from 'node:dns';

// Loaded into each process of the service: names that tenants name are asked for at a server of the test.
const { Resolver } = dns;
dns.Resolver = class extends Resolver {
  constructor(options) {
    super(options);
    super.setServers([process.env.ATTACK_DNS ?? '127.0.0.1:9']);
  }
};
