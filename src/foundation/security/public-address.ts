import { BlockList, isIP } from 'node:net';

/** IPv4 that is not globally reachable (RFC 6890 and successors), or reaches the cloud's own services. */
const forbiddenIpv4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10', // carrier-grade NAT; also Alibaba's metadata service
  '127.0.0.0/8',
  '168.63.129.16/32', // Azure's host agent, in public space
  '169.254.0.0/16', // link-local; the metadata service of most clouds
  '172.16.0.0/12',
  '192.0.0.0/24', // protocol assignments; also Oracle's metadata service
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4', // reserved, and broadcast
];

/**
 * Within 2000::/3, the only IPv6 space that is assigned: special addresses, and those that contain an IPv4
 * address (6to4, Teredo). The others with an IPv4 address (::ffff:0:0/96 mapped, ::/96 compatible,
 * 64:ff9b::/96 and 64:ff9b:1::/48 NAT64) are outside of it, as are loopback, link-local and private.
 */
const forbiddenIpv6 = [
  '2001::/23', // protocol assignments, with Teredo, ORCHID and benchmarking
  '2001:db8::/32',
  '2002::/16', // 6to4
  '2620:4f:8000::/48',
  '3fff::/20',
];

const forbidden4 = blockList(forbiddenIpv4, 'ipv4');
const forbidden6 = blockList(forbiddenIpv6, 'ipv6');
const given6 = blockList(['2000::/3'], 'ipv6');

/** Says whether a literal address is on the public internet; false for anything that is not an address. */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !forbidden4.check(address, 'ipv4');
    case 6:
      // With a zone (`fe80::1%eth0`) it is local by definition.
      return (
        !address.includes('%') &&
        given6.check(address, 'ipv6') &&
        !forbidden6.check(address, 'ipv6')
      );
    default:
      return false;
  }
}

function blockList(ranges: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [net = '', bits] = range.split('/');
    list.addSubnet(net, Number(bits), family);
  }
  return list;
}
