package zeroloss

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

//go:embed testdata/gateway_api.yaml.tmpl
var gatewayAPIObjects string

// gatewayState is the state that the events change.
type gatewayState struct {
	Generation                              int
	Backend                                 string // v1 or v2
	Listener, ListenerSet, Match            bool
	HTTP, HTTPS, TCP, Added, Set            int // ports
	Servers                                 echo.Ports
	Certificate, Key                        string
	HTTPHost, HTTP2Host, GRPCHost, SetsHost string
	Pool                                    poolState
	PoolHost                                string
	SecondProxy                             string // address
}

// gatewayStage is a gateway with servers behind it, and requests through it.
type gatewayStage struct {
	*testing.T
	edge      *gatewayenv.Edge
	load      *load.Load
	state     gatewayState
	authority *pki.Pair
	serial    int64
	slowest   map[string]time.Duration
	balancer  *balancer
	second    *gatewayenv.Proxy
}

// gatewayEvent is a change of Gateway API objects, and how it shows.
type gatewayEvent struct {
	name string
	do   func(*gatewayStage)
	seen func(*gatewayStage) error
}

// gatewayEvents are one round. The last leaves the state that the first begins with.
func gatewayEvents() []gatewayEvent {
	change := func(f func(*gatewayState)) func(*gatewayStage) {
		return func(s *gatewayStage) { f(&s.state) }
	}
	added := func(port func(gatewayState) int, open bool) func(*gatewayStage) error {
		return func(s *gatewayStage) error { return requirePort(port(s.state), open) }
	}
	extra := func(s gatewayState) int { return s.Added }
	set := func(s gatewayState) int { return s.Set }
	return slices.Concat(poolEvents(), []gatewayEvent{
		{name: "scale the Gateway from 1 to 2", do: (*gatewayStage).scaleUp, seen: (*gatewayStage).scaledUp},
		{name: "edit a route", do: change(func(*gatewayState) {})},
		{name: "add a rule", do: change(func(s *gatewayState) { s.Match = true })},
		{name: "add a listener", do: change(func(s *gatewayState) { s.Listener = true }), seen: added(extra, true)},
		{name: "attach a ListenerSet", do: change(func(s *gatewayState) { s.ListenerSet = true }), seen: added(set, true)},
		{name: "rotate the certificate", do: (*gatewayStage).rotate, seen: (*gatewayStage).rotated},
		{name: "replace the backend", do: change(func(s *gatewayState) { s.Backend = "v2" }), seen: (*gatewayStage).replaced},
		{name: "remove a rule", do: change(func(s *gatewayState) { s.Match = false })},
		{name: "remove a listener", do: change(func(s *gatewayState) { s.Listener = false }), seen: added(extra, false)},
		{name: "detach a ListenerSet", do: change(func(s *gatewayState) { s.ListenerSet = false }), seen: added(set, false)},
		{name: "return to the first backend", do: change(func(s *gatewayState) { s.Backend = "v1" }), seen: (*gatewayStage).replaced},
		{name: "scale the Gateway from 2 to 1", do: (*gatewayStage).scaleDown},
		{name: "restart the control plane", do: func(s *gatewayStage) { s.edge.Restart() }},
	})
}

// requirePort returns an error unless a port of the gateway is open or closed as wanted.
func requirePort(port int, open bool) error {
	conn, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(port), time.Second)
	if err == nil {
		conn.Close()
	}
	if (err == nil) != open {
		return fmt.Errorf("port %d: %w", port, err)
	}
	return nil
}

// rotate issues a certificate with a new serial number.
func (s *gatewayStage) rotate() {
	s.serial++
	pair := s.authority.Issue(&x509.Certificate{
		SerialNumber: big.NewInt(s.serial), DNSNames: []string{s.state.HTTPHost, s.state.HTTP2Host, s.state.GRPCHost},
	})
	s.state.Certificate = base64.StdEncoding.EncodeToString(pair.CertificatePEM())
	s.state.Key = base64.StdEncoding.EncodeToString(pair.KeyPEM())
}

// rotated returns an error unless the gateway presents the current certificate.
func (s *gatewayStage) rotated() error {
	conn, err := s.dialTLS(s.Context(), firstProxy, s.state.HTTPHost)
	if err != nil {
		return err
	}
	defer conn.Close()
	if now := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); now != s.serial {
		return fmt.Errorf("certificate %d, want %d", now, s.serial)
	}
	return nil
}

// replaced returns an error unless new requests are answered by the current backend.
func (s *gatewayStage) replaced() error { return s.answeredBy(s.lanes(), s.state.Backend) }

// answeredBy returns an error unless new requests in some lanes are answered by a version; by any if it is "".
func (s *gatewayStage) answeredBy(lanes []load.Lane, version string) error {
	for _, lane := range lanes {
		if lane.Kind.Long() {
			continue
		}
		c := lane.Caller()
		ctx, cancel := context.WithTimeout(s.Context(), requestTime)
		reply, err := c.Call(ctx, "probe")
		cancel()
		c.Close()
		if err != nil || version != "" && reply.Version != version {
			return fmt.Errorf("%s: answered by %q, want %s: %w", lane.Name, reply.Version, version, err)
		}
	}
	return nil
}

// dialPlain returns a function that connects to a port.
func dialPlain(port int) dialProxy {
	return func(ctx context.Context, proxy string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(proxy, strconv.Itoa(port)))
	}
}

func (s *gatewayStage) dialTLS(ctx context.Context, proxy, host string) (*tls.Conn, error) {
	d := tls.Dialer{Config: &tls.Config{RootCAs: s.authority.Pool(), ServerName: host, MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(proxy, strconv.Itoa(s.state.HTTPS)))
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), nil
}

// lane returns requests of a kind to a host. Long connections stay with the first proxy: they would end with
// the second one.
func (s *gatewayStage) lane(name string, kind echo.Kind, host string, dial dialProxy) load.Lane {
	const rate = 24
	workers := new(atomic.Int64)
	return load.Lane{
		Name: name + string(kind), Kind: kind, Rate: rate, Workers: 2, Timeout: requestTime,
		Caller: func() echo.Caller {
			worker := int(workers.Add(1)) - 1
			if kind.Long() {
				worker = 0
			}
			return s.balancer.newCaller(name+string(kind), worker, func(d echo.Dial) echo.Caller {
				return echo.NewCaller(kind, d, host, echo.Ports{HTTP: 80, HTTP2: 80, GRPC: 80, TCP: 80})
			}, dial)
		},
	}
}

// lanes are all kinds of requests in plain text, and those over HTTP with TLS.
func (s *gatewayStage) lanes() []load.Lane {
	hosts := map[echo.Kind]string{echo.HTTP: s.state.HTTPHost, echo.HTTPClose: s.state.HTTPHost, echo.HTTP2: s.state.HTTP2Host}
	var list []load.Lane
	for _, kind := range echo.Kinds() {
		if kind == echo.TCP || kind == echo.TCPOpen {
			list = append(list, s.lane("", kind, "tcp", dialPlain(s.state.TCP)))
			continue
		}
		host := hosts[kind]
		if host == "" {
			host = s.state.GRPCHost
		}
		encrypted := func(ctx context.Context, proxy string) (net.Conn, error) { return s.dialTLS(ctx, proxy, host) }
		list = append(list, s.lane("", kind, host, dialPlain(s.state.HTTP)), s.lane("TLS ", kind, host, encrypted))
	}
	return list
}

// allLanes are those of lanes, and the ones of the pool.
func (s *gatewayStage) allLanes() []load.Lane { return append(s.lanes(), s.poolLanes()...) }

// apply writes the objects with a new generation.
func (s *gatewayStage) apply() {
	s.Helper()
	s.state.Generation++
	var b bytes.Buffer
	if err := template.Must(template.New("").Parse(gatewayAPIObjects)).Execute(&b, s.state); err != nil {
		s.Fatal(err)
	}
	s.edge.Write("gateway.yaml", b.String())
}

// generationSeen returns an error unless all lanes over HTTP have a reply of the current generation.
func (s *gatewayStage) generationSeen(newest map[string]load.Seen) error {
	for _, lane := range s.allLanes() {
		seen, found := newest[lane.Name]
		if !found {
			return fmt.Errorf("%s: no reply", lane.Name)
		}
		if seen.HTTP && !lane.Kind.Long() && generation(seen.Reply) != s.state.Generation {
			return fmt.Errorf("%s: generation %s, want %d", lane.Name, seen.Generation, s.state.Generation)
		}
	}
	return nil
}

// play lets an event happen, and waits until it shows.
func (s *gatewayStage) play(e gatewayEvent) {
	s.Helper()
	s.load.During(e.name)
	begin := time.Now()
	e.do(s)
	s.apply()
	ctx, cancel := context.WithTimeout(s.Context(), effectTime)
	defer cancel()
	if err := s.load.Await(ctx, s.generationSeen); err != nil {
		s.Fatalf("%s: no effect within %s: %v", e.name, effectTime, err)
	}
	if e.seen != nil {
		gatewayenv.Eventually(s.T, e.name, func() error { return e.seen(s) })
	}
	s.slowest[e.name] = max(s.slowest[e.name], time.Since(begin))
}

// TestNoRequestIsLostAtAGateway changes Gateway API objects while requests of all kinds are sent to
// a gateway, in plain text, over TLS, and over TCP. No request may fail.
func TestNoRequestIsLostAtAGateway(t *testing.T) {
	longtest.Test(t)
	s := newGatewayStage(t)
	for range *rounds {
		for _, e := range gatewayEvents() {
			s.play(e)
		}
		if n := s.load.Tally().Sum(nil).Failed; n >= lostEnough {
			break
		}
	}
	if *rounds >= manyRounds {
		s.load.During(afterAll)
		serving.Eventually(t, drainTime, "Envoy has drained", s.drained)
	}
	tally := s.load.Stop()
	all := tally.Sum(nil)
	t.Logf("%d rounds: %d of %d requests lost in %s, %.0f a second", *rounds, all.Failed, all.Sent, tally.Elapsed.Round(time.Second), tally.Rate())
	for _, e := range gatewayEvents() {
		n := tally.Sum(func(c load.Cell) bool { return c.Event == e.name })
		t.Logf("%-28s %d/%d lost, seen after at most %s", e.name, n.Failed, n.Sent, s.slowest[e.name].Round(time.Millisecond))
	}
	if all.Failed > 0 {
		t.Errorf("%d of %d requests were lost", all.Failed, all.Sent)
		for _, f := range tally.Failures[:min(20, len(tally.Failures))] {
			t.Log(f)
		}
	}
	if tally.Rate() < leastRateOfFaults {
		t.Errorf("%.0f requests a second prove little", tally.Rate())
	}
}

// drained returns an error while the gateway drains a listener, or a part of one.
func (s *gatewayStage) drained() error {
	text, err := serving.Page("http://" + s.edge.Admin + "/stats?filter=^listener_manager.total_(filter_chains|listeners)_draining$")
	for line := range strings.Lines(text) {
		if err == nil && !strings.HasSuffix(strings.TrimSpace(line), ": 0") {
			err = errors.New(line)
		}
	}
	return err
}

// newGatewayStage starts the servers, the gateway and the requests.
func newGatewayStage(t *testing.T) *gatewayStage {
	t.Helper()
	ports := serving.FreePorts(t, 9)
	s := &gatewayStage{T: t, slowest: map[string]time.Duration{}, balancer: new(balancer), authority: pki.Authority("gateway"), state: gatewayState{
		Backend: "v1", HTTP: ports[0], HTTPS: ports[1], TCP: ports[2], Added: ports[3], Set: ports[4],
		Servers:  echo.Ports{HTTP: ports[5], HTTP2: ports[6], GRPC: ports[7], TCP: ports[8]},
		HTTPHost: "http.echo.mesh", HTTP2Host: "http2.echo.mesh", GRPCHost: "grpc.echo.mesh", SetsHost: "more.echo.mesh",
		Pool: firstPool(), PoolHost: poolHost, SecondProxy: secondProxy,
	}}
	for version, address := range map[string]string{"v1": "127.0.0.1", "v2": "127.0.0.2"} {
		server, err := echo.NewServer(echo.Options{
			Version: version, Ports: []echo.Ports{s.state.Servers},
			Listen: func(network, at string) (net.Listener, error) { return net.Listen(network, address+at) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
	}
	s.edge = gatewayenv.Start(t, gatewayenv.Options{
		Flags:    []string{"--secretsPlainText", "loopback"},
		Env:      []string{"ENABLE_GATEWAY_API_INFERENCE_EXTENSION=true"},
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})
	s.startPickers()
	s.rotate()
	s.apply()
	gatewayenv.Eventually(t, "the gateway forwards", func() error {
		return errors.Join(s.replaced(), s.rotated(), s.answeredBy(s.poolLanes(), ""))
	})
	s.load = load.Start(s.allLanes())
	t.Cleanup(func() { s.load.Stop() })
	return s
}
