package hostileclients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretservice "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/miekg/dns"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// probe is the repeated operation of one kind of honest client. Unless stated otherwise it uses a
// new connection each time, as a client that has just started.
type probe struct {
	name   string
	victim string // the program that is asked
	limit  time.Duration
	every  time.Duration
	do     func(ctx context.Context) error
}

const (
	// answerLimit is the bound of the issue: an honest proxy connects, and a review is answered,
	// within a second.
	answerLimit = time.Second
	// changeLimit includes the API server, and the time that the control plane waits for more
	// changes.
	changeLimit = 2 * time.Second
	// kubeletLimit is the timeout of the readiness probe in our injection templates. It bounds
	// Envoy's own ports: Envoy has one worker for all connections, and what it does with them is
	// not ours.
	kubeletLimit = 3 * time.Second
	// giveUp is the timeout of an honest client, which then counts as refused.
	giveUp = 10 * time.Second
)

func (s *scene) probes() []probe {
	const often = 150 * time.Millisecond
	plane, agent := s.plane, s.agent
	page := func(v *victim, port, path string) func(context.Context) error {
		return func(ctx context.Context) error { return s.get(ctx, "http://"+v.door(port).Address+path) }
	}
	return []probe{
		{"connect 15012", plane.name, answerLimit, often,
			func(ctx context.Context) error { return s.connectProxy(ctx, "15012") }},
		{"connect 15010", plane.name, answerLimit, often,
			func(ctx context.Context) error { return s.connectProxy(ctx, "15010") }},
		{"change", plane.name, changeLimit, 300 * time.Millisecond, s.change},
		{"inject", plane.name, answerLimit, often, func(ctx context.Context) error {
			return s.review(ctx,
				"/inject", podReview(), `"patch"`)
		}},
		{"validate", plane.name, answerLimit, often, func(ctx context.Context) error {
			return s.review(ctx,
				"/validate", ruleReview(), `"allowed":true`)
		}},
		{"csr", plane.name, answerLimit, often, func(ctx context.Context) error {
			_, err := s.certificate(ctx, s.tokens[int(s.turn.Add(1))%len(s.tokens)])
			return err
		}},
		{"ready 8080", plane.name, answerLimit, often, page(plane, "8080", "/ready")},
		{"debug 15014", plane.name, answerLimit, often, page(plane, "15014", "/debug/endpointz?brief")},
		{"ready 15020", agent.name, answerLimit, often, page(agent, "15020", "/healthz/ready")},
		{"ready 15021", agent.name, kubeletLimit, often, page(agent, "15021", "/healthz/ready")},
		{"stats 15090", agent.name, kubeletLimit, 2 * often, page(agent, "15090", "/stats/prometheus")},
		{"dns 15053", agent.name, answerLimit, often, func(ctx context.Context) error {
			return errors.Join(resolve(ctx, agent.door("15053 udp").Address, "udp"),
				resolve(ctx, agent.door("15053 tcp").Address, "tcp"))
		}},
		{"sds", agent.name, answerLimit, often, s.fetchSecret},
	}
}

// dialHonest connects from the honest clients' address.
func dialHonest(ctx context.Context, network, address string) (net.Conn, error) {
	return dialFrom(ctx, honestSource, network, address)
}

// dialPlane is a gRPC client of a port of the control plane, with a workload's certificate or
// without one.
func (s *scene) dialPlane(port string, own *tls.Certificate) (*grpc.ClientConn, error) {
	d := s.plane.door(port)
	security := insecure.NewCredentials()
	if d.TLS {
		config := &tls.Config{RootCAs: s.roots, ServerName: serverName, MinVersion: tls.VersionTLS12}
		if own != nil {
			config.Certificates = []tls.Certificate{*own}
		}
		security = credentials.NewTLS(config)
	}
	return grpc.NewClient("passthrough:///"+d.Address, grpc.WithTransportCredentials(security),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn,
			error) {
			return dialHonest(ctx, "tcp", address)
		}))
}

var errFilterMissing = errors.New("connected, but the listeners are without the EnvoyFilter")

// connectProxy connects a proxy until it has clusters and listeners, and the listeners have the
// filter of the mesh.
func (s *scene) connectProxy(ctx context.Context, port string) error {
	p, err := s.openProxy(ctx, port, fmt.Sprintf("honest-%d", s.turn.Add(1)))
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.request(api.ClusterType, p.node); err != nil {
		return err
	}
	if err := p.request(api.ListenerType, nil); err != nil {
		return err
	}
	seen := map[string]bool{}
	for len(seen) < 2 {
		response, err := p.next(0)
		if err != nil {
			return err
		}
		seen[response.TypeUrl] = true
		if response.TypeUrl == api.ListenerType && !contains(response, markerFilter) {
			return errFilterMissing
		}
	}
	return nil
}

// contains reports whether any resource of a response has a text in it.
func contains(r *discoveryv3.DiscoveryResponse, text string) bool {
	for _, x := range r.Resources {
		if strings.Contains(string(x.Value), text) {
			return true
		}
	}
	return false
}

// change edits a route through the API server, and waits until a proxy that stays connected has the
// change.
func (s *scene) change(ctx context.Context) error {
	n := s.round.Add(1)
	if err := s.setRound(ctx, n); err != nil {
		return fmt.Errorf("the API server: %w", err)
	}
	return s.subscriber.await(ctx, roundText(n))
}

func (s *scene) get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dialHonest, DisableKeepAlives: true}}
	return answered(client.Do(request))
}

// review sends a review to a webhook as the API server does.
func (s *scene) review(ctx context.Context, path string, body []byte, want string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"https://"+s.plane.door("15017").Address+path, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{
		DialContext: dialHonest, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: s.roots, ServerName: serverName, MinVersion: tls.VersionTLS12},
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && !strings.Contains(string(text), want) {
		err = fmt.Errorf("%s: no %s in %.300s", response.Status, want, text)
	}
	return err
}

func answered(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", response.Status, text)
	}
	return err
}

// certificate requests a workload's certificate with a token.
func (s *scene) certificate(ctx context.Context, token string) (identity, error) {
	conn, err := s.dialPlane("15012", nil)
	if err != nil {
		return identity{}, err
	}
	defer conn.Close()
	csr, key, err := signingRequest()
	if err != nil {
		return identity{}, err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	answer, err := security.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
		&security.IstioCertificateRequest{Csr: csr, ValidityDuration: 3600})
	if err != nil {
		return identity{}, err
	}
	chain := strings.Join(answer.CertChain[:len(answer.CertChain)-1], "\n")
	return identity{Certificate: []byte(chain), Key: key, Token: token}, nil
}

func (s *scene) pool(roots string) *x509.CertPool {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(roots)) {
		s.t.Fatal("the mesh has no roots")
	}
	return pool
}

// resolve resolves a name, and retries once without an answer, as resolvers do: UDP loses packets.
// The second answer may take until ctx ends, so that a busy machine makes it late, not refused.
func resolve(ctx context.Context, address, network string) error {
	q := new(dns.Msg)
	q.SetQuestion("localhost.", dns.TypeA)
	client := &dns.Client{Net: network, Timeout: answerLimit / 2}
	if _, _, err := client.ExchangeContext(ctx, q, address); err == nil {
		return nil
	}
	client.Timeout = giveUp
	_, _, err := client.ExchangeContext(ctx, q, address)
	return err
}

// fetchSecret gets the workload's certificate at the agent's socket, as Envoy does.
func (s *scene) fetchSecret(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+s.agent.door("SDS").Address,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	st, err := secretservice.NewSecretDiscoveryServiceClient(conn).StreamSecrets(ctx)
	if err != nil {
		return err
	}
	err = st.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "sidecar"}, TypeUrl: api.SecretType,
		ResourceNames: []string{"default"}})
	if err != nil {
		return err
	}
	response, err := st.Recv()
	if err == nil && len(response.Resources) != 1 {
		err = errors.New("no certificate")
	}
	return err
}

// proxy is an honest proxy with one SotW stream.
type proxy struct {
	conn *grpc.ClientConn
	st   adsStream
	node *corev3.Node
	stop context.CancelFunc
	// endpoints are the clusters whose endpoints it has requested.
	endpoints []string
}

func (s *scene) openProxy(ctx context.Context, port, name string) (*proxy, error) {
	conn, err := s.dialPlane(port, s.own)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		cancel()
		_ = conn.Close()
		return nil, err
	}
	return &proxy{conn: conn, st: st, node: honestNode(name), stop: cancel}, nil
}

func (p *proxy) close() { p.stop(); _ = p.conn.Close() }

func (p *proxy) request(typeURL string, node *corev3.Node, names ...string) error {
	return p.st.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: typeURL, ResourceNames: names})
}

// next returns the next response and acknowledges it after a delay, the time that Envoy takes to
// apply it. It requests the endpoints of new clusters, as Envoy does.
func (p *proxy) next(delay time.Duration) (*discoveryv3.DiscoveryResponse, error) {
	response, err := p.st.Recv()
	if err != nil {
		return nil, err
	}
	if delay > 0 {
		pause(p.st.Context(), delay)
	}
	var names []string
	switch response.TypeUrl {
	case api.RouteType:
		names = []string{honestRoute}
	case api.EndpointType:
		names = p.endpoints
	case api.ClusterType:
		p.endpoints = endpointNames(response)
		if err := acknowledge(p.st, response, ""); err != nil {
			return nil, err
		}
		return response, p.request(api.EndpointType, nil, p.endpoints...)
	}
	return response, acknowledge(p.st, response, "", names...)
}
