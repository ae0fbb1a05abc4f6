package ondemand

import (
	"bufio"
	"embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

//go:embed testdata
var testdata embed.FS

// patience bounds the wait for anything.
const patience = 30 * time.Second

// lab is an Envoy, its ADS server, and servers behind it.
type lab struct {
	t                   *testing.T
	server              *server
	HTTP, TCP, Weighted int // ports of listeners
	XDS                 int // port of the ADS server
	client              *http.Client
	copies              atomic.Int64 // requests to the server "shadow"
}

// startLab starts an Envoy and a server for each cluster in testdata/bootstrap.yaml.tmpl, but not
// for the cluster "missing".
func startLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, server: startServer(t), HTTP: serving.FreePort(t), TCP: serving.FreePort(t), Weighted: serving.FreePort(t)}
	for _, name := range []string{"local", "a", "b", "c", "w1", "w2", "w3", "shadow"} {
		s := httptest.NewServer(l.answerWith(name))
		t.Cleanup(s.Close)
		l.addCluster(name, s.Listener.Addr())
	}
	for _, name := range []string{"tcp-a", "tcp-b", "tcp-c", "tcp-d"} {
		l.addCluster(name, serveLines(t, name))
	}
	l.XDS = portOf(t, l.server.address)
	bootstrap, err := template.ParseFS(testdata, "testdata/bootstrap.yaml.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := bootstrap.Execute(&text, l); err != nil {
		t.Fatal(err)
	}
	ready := envoy.Listening("tcp", fmt.Sprint("127.0.0.1:", l.HTTP)) // a connection to another one would fetch
	envoy.Start(t, envoy.Options{Bootstrap: []byte(text.String()), Ready: ready})
	l.client = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	return l
}

func (l *lab) answerWith(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if name == "shadow" {
			l.copies.Add(1)
		}
		fmt.Fprintf(w, "%s %d", name, n)
	}
}

// serveLines answers each connection with the name and the first line that it receives.
func serveLines(t *testing.T, name string) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if line, err := bufio.NewReader(c).ReadString('\n'); err == nil {
					fmt.Fprint(c, name, " ", line)
				}
			}()
		}
	}()
	return listener.Addr()
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// addCluster adds an EDS cluster with one endpoint to the resources of the ADS server.
func (l *lab) addCluster(name string, endpoint net.Addr) {
	l.t.Helper()
	ads := &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
	l.server.set(api.ClusterType, name, &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads},
	})
	l.server.set(api.EndpointType, name, &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{
				Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address:       "127.0.0.1",
					PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(portOf(l.t, endpoint.String()))},
				}},
			}}},
		}}}},
	})
}

// call sends a request with a body of that many bytes to a host, and returns its status and body.
func (l *lab) call(host string, body int) string {
	r, err := http.NewRequestWithContext(
		l.t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", l.HTTP), strings.NewReader(strings.Repeat("x", body)),
	)
	if err != nil {
		return err.Error()
	}
	r.Host = host
	answer, err := l.client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(fmt.Sprint(answer.StatusCode, " ", string(text)))
}

// connect sends a line over a raw connection and returns the answer.
func (l *lab) connect(port int) string {
	l.t.Helper()
	c, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", port), patience)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintln(c, "hello")
	text, _ := io.ReadAll(c) // nothing if Envoy resets the connection
	return strings.TrimSpace(string(text))
}

// require fails the test unless got is want.
func (l *lab) require(what, got, want string) {
	l.t.Helper()
	if got != want {
		l.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// requireSubscriptions fails the test unless the client has subscribed to a cluster that often.
func (l *lab) requireSubscriptions(cluster string, want int) {
	l.t.Helper()
	if got := l.server.subscriptions(cluster); got != want {
		l.t.Errorf("Envoy has subscribed to %s %d times, want %d", cluster, got, want)
	}
}
