package route

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestEnvoyAcceptsAllCases loads every RouteConfiguration of every case into Envoy, all at once.
func TestEnvoyAcceptsAllCases(t *testing.T) {
	var c envoy.Config
	for _, x := range allRoutes(t) {
		c.Routes = append(c.Routes, x.config)
	}
	envoy.Validate(t, c)
}

// routeOfCase is one RouteConfiguration of a case, with the requests that the case sends to it.
type routeOfCase struct {
	name   string
	config *routev3.RouteConfiguration
	calls  []call
}

func allRoutes(t *testing.T) []*routeOfCase {
	var list []*routeOfCase
	t.Run("cases", func(t *testing.T) {
		golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
			g := NewGenerator()
			v := caseWorld(t, c).view()
			byName := map[string]*routeOfCase{}
			add := func(name string) *routeOfCase {
				if r := g.Named(v, name); byName[name] == nil && r != nil {
					byName[name] = &routeOfCase{name: c.Name + " " + name, config: decoded(t, r)}
					list = append(list, byName[name])
				}
				return byName[name]
			}
			for _, s := range c.Sections() {
				c.Input(s)
				if name, ok := strings.CutPrefix(s, "route "); ok {
					add(name)
				}
			}
			for _, one := range calls(t, c) {
				r := add(one.route)
				r.calls = append(r.calls, one)
			}
		})
	})
	return list
}

// TestEnvoyAgrees sends the requests of all cases to a real Envoy. The route that matches each
// request must be the one that package explain finds. The routes are changed to answer with their
// position.
func TestEnvoyAgrees(t *testing.T) {
	envoy.RequireBinary(t)
	dir := envoy.SocketDir(t)
	routes := allRoutes(t)
	b := new(bootstrapv3.Bootstrap)
	b.StaticResources = new(bootstrapv3.Bootstrap_StaticResources)
	for i, r := range routes {
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, answering(socket(dir, i), r.config))
	}
	envoy.Start(
		t,
		envoy.Options{Bootstrap: envoy.Text(t, b), Ready: envoy.Listening("unix", socket(dir, len(routes)-1))},
	)
	asked := 0
	for i, r := range routes {
		for _, c := range r.calls {
			if c.request.Scheme != "http" {
				continue // the scheme is that of the connection
			}
			want := c.place(t, r.config)
			if got := ask(t, socket(dir, i), c.request); got != want {
				t.Errorf("%s: %s: Envoy matched %q, explain %q", r.name, c.text, got, want)
			}
			asked++
		}
	}
	if asked < 100 {
		t.Errorf("only %d requests were compared", asked)
	}
}

func socket(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%d.sock", i)) }

// ask sends a request to a socket, and returns the position of the matched route, or else the
// status.
func ask(t *testing.T, path string, r *explain.Request) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	to, err := url.ParseRequestURI(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	to.Scheme, to.Host = "http", r.Authority
	header := http.Header{"User-Agent": nil} // or the client adds its own
	for _, h := range r.Header {
		header.Add(h.Name, h.Value)
	}
	req := (&http.Request{Method: r.Method, Host: r.Authority, Header: header, URL: to}).WithContext(ctx)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, req.URL, err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	return resp.Header.Get(placeHeader)
}
