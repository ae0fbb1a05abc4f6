package readapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Peers finds the other replicas of a control plane.
type Peers struct {
	// Addresses are the HTTP ports of other replicas, HOST:PORT (--peers).
	Addresses []string
	// Service is the control plane's own service, whose endpoints are replicas, and Port the number
	// of its HTTP port. If Addresses are set, it is not used.
	Service mesh.ServiceKey
	Port    uint32
	// Self is the name of this replica's workload, which is left out.
	Self string
}

// In returns the addresses of the other replicas, sorted and without duplicates. They are the
// configured ones, or else the endpoints of their Service in this cluster without this replica's.
// It returns nil if the snapshot does not have the Service or its port.
func (p Peers) In(s *snapshot.Snapshot) []string {
	if len(p.Addresses) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(p.Addresses)))
	}
	svc := s.Service(p.Service)
	if svc == nil {
		return nil
	}
	port, ok := svc.Port(p.Port)
	if !ok {
		return nil
	}
	var list []string
	for _, e := range s.Endpoints(p.Service).Endpoints {
		if e.ServicePort != port.Name || e.Cluster != s.Settings.Cluster || e.Workload == p.Self {
			continue
		}
		list = append(list, net.JoinHostPort(e.Address, strconv.FormatUint(uint64(e.Port), 10)))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Unanswered is a replica whose answer is missing.
type Unanswered struct {
	Address string `json:"address" doc:"HTTP port of the replica."`
	Reason  string `json:"reason"`
	// Refused is set if the replica does not accept the credentials of the caller.
	Refused bool `json:"refused,omitempty" doc:"True if the replica does not accept the caller's credentials; a caller over the loopback interface has none to forward."`
}

// Aggregation is the part of a request that selects replicas.
type Aggregation struct {
	Local bool `query:"local" doc:"Only this replica. Otherwise it asks the others too, with the caller's credentials."`
}

const (
	// callerHeader narrows a caller that may read everything to one namespace. A replica sets it on
	// behalf of the caller whose question it passes on, because another replica on the same machine
	// would otherwise take the question for one of the machine itself.
	callerHeader = "Meshpilot-Caller-Namespace"
	// peerTimeout is how long a replica may take to begin its answer.
	peerTimeout = 3 * time.Second
	// peerSilence is how long a stream of events of a replica may be silent.
	peerSilence = 3 * heartbeat
	// maxPeerAnswer limits the size of an answer and of an event.
	maxPeerAnswer = 16 << 20
)

// narrowCaller returns the caller with the namespace of callerHeader, if that is set. The second
// result is false if c has another namespace already, which it cannot leave.
func narrowCaller(r *http.Request, c debug.Caller) (debug.Caller, bool) {
	namespace := r.Header.Get(callerHeader)
	switch {
	case namespace == "" || namespace == c.Namespace:
		return c, true
	case c.Namespace == "":
		return debug.Caller{Namespace: namespace}, true
	default:
		return c, false
	}
}

// credentialsKey is the context key of the Authorization header of a request.
type credentialsKey struct{}

// keepCredentials adds the Authorization header of the request to its context, for requests to
// other replicas.
func keepCredentials(c huma.Context) huma.Context {
	r, _ := humago.Unwrap(c)
	return huma.WithValue(c, credentialsKey{}, r.Header.Get("Authorization"))
}

// peerClient returns a client for requests to other replicas that waits at most first for response
// headers. It neither reuses connections nor follows redirects, because it would send the caller's
// credentials to the new address.
func peerClient(first time.Duration) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: peerTimeout}).DialContext, ResponseHeaderTimeout: first,
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// askPeer sends a request to another replica with the credentials and namespace of the caller in
// ctx. It sets local in query so that the replica does not ask others. first limits the time until
// response headers; the caller closes the body. A status other than 200 is a *peerError.
func askPeer(ctx context.Context, method, address, path string, query url.Values, body io.Reader,
	first time.Duration) (*http.Response, error) {
	query.Set("local", "true")
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+Prefix+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	if credentials, _ := ctx.Value(credentialsKey{}).(string); credentials != "" {
		r.Header.Set("Authorization", credentials)
	}
	if namespace := callerOf(ctx).Namespace; namespace != "" {
		r.Header.Set(callerHeader, namespace)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/yaml")
	}
	answer, err := peerClient(first).Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, &peerError{answer.StatusCode}
	}
	return answer, nil
}

// peerError is the error of a replica that answers with another status than 200.
type peerError struct{ status int }

// Error returns a text with the status code of the replica's response.
func (e *peerError) Error() string {
	return fmt.Sprintf("it answers %d %s", e.status, http.StatusText(e.status))
}

// refused reports whether the replica answered 401 or 403 to the caller's credentials.
func (e *peerError) refused() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}

// peersOf returns the addresses of the other replicas to ask, or nil if the request is for this
// replica only.
func (a *API) peersOf(r Aggregation) []string {
	if r.Local {
		return nil
	}
	return a.Peers.In(a.Snapshot())
}

// readPeer decodes the JSON answer of another replica into the value that into points to. It reads
// at most maxPeerAnswer bytes, and waits at most first and peerTimeout. body is sent with POST
// only.
func readPeer(
	ctx context.Context, method, address, path string, query url.Values, body []byte, first time.Duration, into any,
) error {
	var reader io.Reader
	if method == http.MethodPost {
		reader = bytes.NewReader(body)
	}
	ctx, cancel := context.WithTimeout(ctx, first+peerTimeout)
	defer cancel()
	answer, err := askPeer(ctx, method, address, path, maps.Clone(query), reader, first)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(io.LimitReader(answer.Body, maxPeerAnswer)).Decode(into)
}

// peerAnswer is the answer of one replica.
type peerAnswer[T any] struct {
	address string
	value   T
	err     error
}

// collectAnswers calls ask for all addresses concurrently, and returns the answers in the order of
// the addresses. Each has a value or an error. A panic is an error too, unless Options.Recovery is
// nil: then it propagates.
func collectAnswers[T any](a *API, addresses []string, ask func(address string) (T, error)) []peerAnswer[T] {
	answers := make([]peerAnswer[T], len(addresses))
	var group errgroup.Group
	for i, address := range addresses {
		group.Go(func() error {
			var value T
			err := a.Recovery.Call("readapi", func() (err error) { value, err = ask(address); return err }, "replica",
				address)
			answers[i] = peerAnswer[T]{address, value, err}
			return nil
		})
	}
	_ = group.Wait() // never returns an error
	return answers
}

// newUnanswered returns the entry of a replica that did not answer because of err. Refused is set
// if it rejected the caller's credentials.
func newUnanswered(address string, err error) Unanswered {
	var failed *peerError
	reason := err.Error()
	if errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) {
		reason = "it does not answer in time"
	}
	return Unanswered{Address: address, Reason: reason, Refused: errors.As(err, &failed) && failed.refused()}
}

// collectFromPeers sends a GET for path to the replicas that r selects. It returns their decoded
// answers, and an entry for each replica that did not answer.
func collectFromPeers[T any](
	ctx context.Context, a *API, r Aggregation, path string, query url.Values,
) (list []T, unanswered []Unanswered) {
	for _, one := range collectAnswers(a, a.peersOf(r), func(address string) (value T, err error) {
		return value, readPeer(ctx, http.MethodGet, address, path, query, nil, peerTimeout, &value)
	}) {
		if one.err != nil {
			unanswered = append(unanswered, newUnanswered(one.address, one.err))
		} else {
			list = append(list, one.value)
		}
	}
	return list, unanswered
}
