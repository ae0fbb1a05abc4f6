package probe

import (
	"strings"
	"testing"
)

// FuzzParseKubernetes tests that each accepted probe has exactly one kind, a port and a valid path.
func FuzzParseKubernetes(f *testing.F) {
	for _, s := range []string{
		`{"/app-health/web/readyz":{"httpGet":{"path":"/ready","port":8080}}}`, `{"/app-health/web/livez":{"tcpSocket":{"port":80},"timeoutSeconds":3}}`,
		`{"/app-health/web/startupz":{"grpc":{"port":9000,"service":"a"}}}`, `{"/app-lifecycle/web/prestopz":{"httpGet":{"port":"http"}}}`, `{"/":{}}`, `null`, `[]`,
		`{"/app-health/web/readyz":{"httpGet":{"port":99999}}}`, `{"/app-health/../readyz":{"tcpSocket":{"port":-1}}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseKubernetes(text)
		if err != nil {
			return
		}
		for path, p := range all {
			kinds := 0
			for port, there := range map[uint16]bool{httpPort(p.HTTP): p.HTTP != nil, tcpPort(p.TCP): p.TCP != nil, grpcPort(p.GRPC): p.GRPC != nil} {
				if there {
					kinds++
					if port == 0 {
						t.Errorf("%q has no port", path)
					}
				}
			}
			if kinds != 1 || !probePaths().MatchString(path) || p.Timeout < 0 || p.Timeout == 0 && !strings.HasPrefix(path, hookPrefix) {
				t.Errorf("%q has %d kinds: %+v", path, kinds, p)
			}
		}
	})
}

func httpPort(h *HTTP) uint16 {
	if h == nil {
		return 0
	}
	return h.Port
}

func tcpPort(x *TCP) uint16 {
	if x == nil {
		return 0
	}
	return x.Port
}

func grpcPort(g *GRPC) uint16 {
	if g == nil {
		return 0
	}
	return g.Port
}
