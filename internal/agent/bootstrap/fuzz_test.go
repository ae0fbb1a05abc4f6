package bootstrap

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// FuzzWithHostIP tests that the variable is replaced everywhere, and that an address with a port
// remains one.
func FuzzWithHostIP(f *testing.F) {
	for _, s := range [][2]string{{"$(HOST_IP):9411", "10.0.0.1"}, {"[$(HOST_IP)]:9411", "fd00::1"}, {"zipkin:9411", ""}, {"$(HOST_IP)$(HOST_IP)", "::"}, {"$(HOST_IP", "x"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, address, ip string) {
		out, err := SubstituteHostIP(address, ip)
		if err != nil {
			if ip != "" {
				t.Errorf("%q with %q: %v", address, ip, err)
			}
			return
		}
		if _, err := netip.ParseAddr(ip); err != nil {
			return
		}
		if strings.Contains(out, hostIPVariable) {
			t.Errorf("%q with %q is %q", address, ip, out)
		}
		if address == hostIPVariable+":80" || address == "["+hostIPVariable+"]:80" {
			if host, _, err := net.SplitHostPort(out); err != nil || host != ip {
				t.Errorf("%q with %q is %q: %v", address, ip, out, err)
			}
		}
	})
}
