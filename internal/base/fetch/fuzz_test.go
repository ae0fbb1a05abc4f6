package fetch

import (
	"net/netip"
	"testing"
)

// FuzzAddresses tests that a forbidden IPv4 address is not reachable in any IPv6 form either
// (CVE-2022-31045 and similar).
func FuzzAddresses(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "169.254.169.254", "10.0.0.1", "0.0.0.0", "255.255.255.255", "100.100.100.200", "192.0.2.1", "224.0.0.1"} {
		a := netip.MustParseAddr(s).As4()
		f.Add(a[0], a[1], a[2], a[3], "")
	}
	f.Add(byte(1), byte(2), byte(3), byte(4), "[fe80::1%eth0]:80")
	f.Fuzz(func(t *testing.T, a, b, c, d byte, text string) {
		v4 := netip.AddrFrom4([4]byte{a, b, c, d})
		o := Options{Blocked: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
		refused := o.Check(netip.AddrPortFrom(v4, 80).String()) != nil
		for name, form := range map[string]netip.Addr{
			"mapped": netip.AddrFrom16(v4.As16()),
			"NAT64":  netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: a, 13: b, 14: c, 15: d}),
			"6to4":   netip.AddrFrom16([16]byte{0x20, 0x02, a, b, c, d}),
		} {
			if o.Check(netip.AddrPortFrom(form, 80).String()) == nil && refused {
				t.Errorf("%s is refused, and %s (%s) is not", v4, form, name)
			}
		}
		_ = o.Check(text)
	})
}
