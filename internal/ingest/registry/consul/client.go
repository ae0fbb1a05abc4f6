package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// Settings are the user's settings of a Source.
type Settings struct {
	// URL is the address of a Consul agent or server, "http://host:port" or "https://host:port"
	// (--consulserverURL).
	URL string
	// Interval is the minimum time between two reads of the list of all services (default 2s;
	// --consulserverInterval). Changes of a known service do not wait for it.
	Interval time.Duration
	// TokenFile contains the ACL token. It is read again when it changes (--consulTokenFile).
	TokenFile string
	// Files are the TLS settings (--consulCAFile, --consulCertFile, --consulKeyFile,
	// --consulServerName).
	clienttls.Files
	// Datacenter, Namespace and Partition select the services to read. If empty, Consul uses the
	// values of the agent and the token (--consulDatacenter, --consulNamespace, --consulPartition).
	// Namespace and Partition default to the variables of Consul's client library.
	Datacenter, Namespace, Partition string
	// OtherDatacenters are more datacenters whose services are read, through the same agent or
	// server (--consulOtherDatacenters).
	OtherDatacenters []string
	// Peers are cluster peers whose exported services are read, by the names that Consul has for
	// them (--consulPeers).
	Peers []string
	// Domain is the DNS domain of Consul (default "consul"; --consulDomain).
	Domain string
	// Queries limits the number of blocking queries of services at one time (default 128;
	// --consulQueries). With more services, the queries take turns.
	Queries int
}

// flagPrefix is the prefix of the names of the flags.
const flagPrefix = "consul"

// DefaultSettings returns the settings without flags. URL is missing, so they are not valid.
func DefaultSettings() Settings {
	return Settings{Interval: 2 * time.Second, Domain: DefaultDomain, Queries: 128}
}

// Validate returns an error that names each invalid flag, or nil, and opens no connection. The URL
// must be valid (parseURL), and the domain a DNS name in lower case. Names of datacenters and peers
// must be labels of DNS, and distinct, also from the own datacenter. The interval and the number of
// queries must be positive.
func (s Settings) Validate() error {
	var errs []error
	if _, err := s.parseURL(); err != nil {
		errs = append(errs, fmt.Errorf("--consulserverURL %q: %w", s.URL, err))
	}
	if s.Interval <= 0 {
		errs = append(errs, fmt.Errorf("--consulserverInterval %v: must be positive", s.Interval))
	}
	if s.Queries <= 0 {
		errs = append(errs, fmt.Errorf("--consulQueries %d: must be positive", s.Queries))
	}
	if !isHostname(s.Domain) {
		errs = append(errs, fmt.Errorf("--consulDomain %q: want a DNS name in lower case", s.Domain))
	}
	for i, dc := range s.OtherDatacenters {
		if !isHostLabel(dc) || dc == s.Datacenter || slices.Contains(s.OtherDatacenters[:i], dc) {
			errs = append(errs, fmt.Errorf("--consulOtherDatacenters %q: want names of datacenters, each once and not --consulDatacenter", dc))
		}
	}
	for i, peer := range s.Peers {
		if !isHostLabel(peer) || peer == s.Datacenter || slices.Contains(s.OtherDatacenters, peer) ||
			slices.Contains(s.Peers[:i], peer) {
			errs = append(errs, fmt.Errorf("--consulPeers %q: want names of peerings, each once and not that of a datacenter", peer))
		}
	}
	return errors.Join(append(errs, s.Files.Validate(flagPrefix))...)
}

// parseURL returns the parsed URL, "http://" being the default scheme. It returns an error if the
// scheme is not http or https, or if the host is missing or a user or query is present. A path is
// allowed, and the port may be missing.
func (s Settings) parseURL() (*url.URL, error) {
	text := s.URL
	if !strings.Contains(text, "://") {
		text = "http://" + text // as in Istio, whose flag takes host:port too
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not a URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("want http://host:port or https://host:port")
	}
	return u, nil
}

// reservedConnections are for the catalog query, the query of the servers, and the checks before a
// removal.
const reservedConnections = 3

// maxAnswer limits the size of one answer. A service with 100,000 instances stays below it.
const maxAnswer = 256 << 20

// newClient returns a client that opens at most Queries+reservedConnections connections, and opens
// none yet. It returns an error for an invalid URL or an unreadable CA file. If s.Namespace is
// empty, it becomes the namespace in the environment variables of Consul's library, since objects
// need it too.
func (s *Settings) newClient() (*api.Client, error) {
	u, err := s.parseURL()
	if err != nil {
		return nil, err
	}
	security, err := api.SetupTLSConfig(&api.TLSConfig{Address: cmp.Or(s.ServerName, u.Host), CAFile: s.CAFile})
	if err != nil {
		return nil, err
	}
	s.SetClientCertificate(security, flagPrefix)
	// A blocking query is silent for minutes, so TCP must detect that the server has disappeared.
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: security,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		MaxConnsPerHost: s.Queries + reservedConnections, MaxIdleConnsPerHost: s.Queries + reservedConnections,
	}
	config := api.Config{
		Address: u.Host, Scheme: u.Scheme, PathPrefix: strings.TrimSuffix(u.Path, "/"),
		Datacenter: s.Datacenter, Namespace: s.Namespace, Partition: s.Partition,
		HttpClient: &http.Client{Transport: limitedTransport{transport}},
	}
	client, err := api.NewClient(&config)
	s.Namespace = config.Namespace
	return client, err
}

// limitedTransport fails answers that are larger than maxAnswer.
type limitedTransport struct{ *http.Transport }

// RoundTrip sends a request. Reading more than maxAnswer bytes of the response's body fails with an
// error. An error of the transport is returned as it is.
func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err == nil {
		resp.Body = &limitedBody{resp.Body, maxAnswer}
	}
	return resp, err
}

type limitedBody struct {
	io.ReadCloser
	left int
}

// Read reads, and returns an error when more than maxAnswer bytes were read in all. The data that
// exceeded the limit are lost.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	return n, err
}

// failure is the class of a failed query: a label of the metric.
type failure string

const (
	failedACL         failure = "acl"         // the token is invalid, expired, or lacks a right
	failedServer      failure = "server"      // an error of the server, such as no leader
	failedRate        failure = "rate_limit"  // the server limits requests
	failedUnreachable failure = "unreachable" // no answer
)

// classify returns the class of a failed query for metrics: ACL, rate limit, server error, or
// unreachable if Consul did not answer with a status. Any other status is a server error.
func classify(err error) failure {
	var status api.StatusError
	switch {
	case !errors.As(err, &status):
		return failedUnreachable
	case status.Code == http.StatusForbidden || status.Code == http.StatusUnauthorized:
		return failedACL
	case status.Code == http.StatusTooManyRequests:
		return failedRate
	default:
		return failedServer
	}
}

// errorText returns a text for a Problem about a failed query. Repeated failures with one cause
// have the same text, so it contains no ports of connections and no parameters. Of a response with
// an error status it has the status and the first 200 bytes of the body. Invalid UTF-8 in these
// bytes, such as a character that the limit cuts, becomes "?".
func errorText(err error) string {
	var status api.StatusError
	var op *net.OpError
	var request *url.Error
	switch {
	case errors.As(err, &status):
		body := strings.TrimSpace(status.Body)
		return fmt.Sprintf("status %d: %s", status.Code, strings.ToValidUTF8(body[:min(len(body), 200)], "?"))
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &request):
		return request.Err.Error() // without the address and the parameters of the query
	default:
		return err.Error()
	}
}
