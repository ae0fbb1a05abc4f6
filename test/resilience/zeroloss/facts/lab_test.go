package facts

import (
	"context"
	"embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

//go:embed testdata
var testdata embed.FS

const (
	limit = 8 * time.Second
	// drainTime is the time after which Envoy closes draining connections.
	drainTime = time.Second
	// serverDelay equals the interval between requests of a lane, so that one is always in
	// progress.
	serverDelay = 50 * time.Millisecond
)

// config is the configuration of an Envoy; tests change it.
type config struct {
	Dir, IP  string
	Clusters []route
	Servers  []string // endpoints of every cluster

	MaxConnections int
	TLS, HTTP2     bool // to servers
	// ByEndpoint has each endpoint's metadata choose TLS, which EndpointTLS adds. Hostname is that of every endpoint.
	ByEndpoint, EndpointTLS bool
	Hostname                string
	DNS                     bool // clusters resolve "localhost" instead of being given endpoints
	ECDS                    bool // the TCP proxy is sent by ECDS
	// Numbers that tests count up: in routes, in the HTTP chains, in the TCP proxy, outside the chains.
	Generation, ChainGeneration, TCPGeneration, ListenerGeneration int
}

// route is a listener and its cluster.
type route struct {
	Name  string
	Port  int
	HTTP2 bool // to servers
}

func ports() echo.Ports { return echo.Ports{HTTP: 8080, HTTP2: 8082, GRPC: 7070, TCP: 9000} }

// lab is an Envoy with servers behind it and requests through it.
type lab struct {
	t      *testing.T
	config config
	load   *load.Load
	done   map[string]string // last written content, by file
}

// newLab starts one. Labs run side by side, each on loopback addresses of its own.
func newLab(t *testing.T, number int, first func(*config)) *lab {
	t.Helper()
	netns.Require(t)
	envoy.RequireBinary(t)
	l := &lab{t: t, done: map[string]string{}, config: config{
		Dir: tempDir(t), IP: fmt.Sprintf("127.1.0.%d", number), MaxConnections: 1000,
		Clusters: []route{{"http", 8080, false}, {"http2", 8082, true}, {"grpc", 7070, true}, {"tcp", 9000, false}},
	}}
	for version := range 2 {
		ip := fmt.Sprintf("127.1.%d.%d", version+1, number)
		serve(t, ip, fmt.Sprintf("v%d", version+1))
		l.config.Servers = append(l.config.Servers, ip)
	}
	if first != nil {
		first(&l.config)
	}
	l.write()
	l.run()
	l.load = load.Start(l.lanes())
	t.Cleanup(func() { l.load.Stop() })
	l.answered(time.Now())
	return l
}

// tempDir makes a directory whose name needs no quotes in YAML, unlike that of a test.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "meshpilot-facts-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func serve(t *testing.T, ip, version string) {
	t.Helper()
	s, err := echo.NewServer(echo.Options{
		Version: version, Ports: []echo.Ports{ports()}, Delay: serverDelay,
		Listen: func(network, address string) (net.Listener, error) { return net.Listen(network, ip+address) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
}

// write brings the files to the configuration; Envoy sees each that is renamed into place. Clusters first, listeners last.
func (l *lab) write() {
	l.t.Helper()
	for _, r := range l.config.Clusters { // endpoints and routes are one to a file
		l.writeFile("eds", "eds-"+r.Name, r)
	}
	l.writeFile("cds", "cds", route{})
	l.writeFile("ecds", "ecds", route{})
	for _, r := range l.config.Clusters {
		l.writeFile("rds", "rds-"+r.Name, r)
	}
	l.writeFile("lds", "lds", route{})
}

func (l *lab) writeFile(kind, name string, r route) {
	l.t.Helper()
	text := l.text(kind, r)
	if l.done[name] == text {
		return
	}
	l.done[name] = text
	staged := filepath.Join(l.config.Dir, "staged")
	if err := os.WriteFile(staged, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(staged, filepath.Join(l.config.Dir, name+".yaml")); err != nil {
		l.t.Fatal(err)
	}
}

// text returns the content of a kind of file.
func (l *lab) text(kind string, r route) string {
	l.t.Helper()
	t, err := template.ParseFS(testdata, "testdata/"+kind+".yaml.tmpl")
	if err != nil {
		l.t.Fatal(err)
	}
	var b strings.Builder
	if err := t.Execute(&b, struct {
		config
		Route route
	}{l.config, r}); err != nil {
		l.t.Fatal(err)
	}
	return b.String()
}

func (l *lab) run() {
	l.t.Helper()
	envoy.Start(l.t, envoy.Options{
		Bootstrap: []byte(l.text("bootstrap", route{})), Ready: envoy.Live(l.config.IP + ":9901"),
		Args: []string{"--drain-time-s", strconv.Itoa(int(drainTime / time.Second)), "--drain-strategy", "immediate"},
	})
}

func (l *lab) lanes() []load.Lane {
	var list []load.Lane
	for _, kind := range echo.Kinds() {
		list = append(list, load.Lane{
			Name: string(kind), Kind: kind, Workers: 2, Rate: 2 * int(time.Second/serverDelay), Timeout: limit,
			Caller: func() echo.Caller { return echo.NewCaller(kind, new(net.Dialer).DialContext, l.config.IP, ports()) },
		})
	}
	return list
}

// answered waits for an answer on every lane to a request sent after since.
func (l *lab) answered(since time.Time) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), limit)
	defer cancel()
	if err := l.load.Await(ctx, func(newest map[string]load.Seen) error {
		for _, kind := range echo.Kinds() {
			if newest[string(kind)].Sent.Before(since) {
				return fmt.Errorf("no answer over %s", kind)
			}
		}
		return nil
	}); err != nil {
		failures := l.load.Tally().Failures
		l.t.Fatal(err, failures[max(0, len(failures)-3):])
	}
}

func (l *lab) admin(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.config.IP+":9901"+path, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(body), err
}

// counter returns the sum of Envoy's counters whose names an expression matches.
func (l *lab) counter(names string) int {
	l.t.Helper()
	text, err := l.admin("/stats?filter=" + names)
	if err != nil {
		l.t.Fatal(err)
	}
	sum := 0
	for line := range strings.SplitSeq(text, "\n") {
		_, value, _ := strings.Cut(line, ": ")
		if n, err := strconv.Atoi(value); err == nil {
			sum += n
		}
	}
	return sum
}

// until waits for a condition.
func (l *lab) until(what string, check func() error) {
	l.t.Helper()
	serving.Eventually(l.t, limit, what, check)
}
