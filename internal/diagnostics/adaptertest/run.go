package adaptertest

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/internal/diagnostics/check"
	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
)

// Target is an adapter.
type Target struct {
	// Address is where it serves xDS, "host:port".
	Address string
	// TLS are the client's settings. If nil, TLS is not used.
	TLS *tls.Config
	// Timeout limits the time until an answer (default 10 s).
	Timeout time.Duration
	// Quiet is how long a stream is watched for an answer that must not arrive (default 1 s).
	Quiet time.Duration
}

// rule is one row of the table of rules.
type rule struct {
	condition, hint string
	// check returns what was found, or an error if the adapter breaks the rule. It returns a
	// skipError if the rule cannot be checked.
	check func(context.Context, *run) (detail string, err error)
	// required is set if no later rule can be checked without this one.
	required bool
}

// skipError is the reason for which a rule cannot be checked.
type skipError struct{ reason string }

// Error returns the reason for which a rule is skipped.
func (e skipError) Error() string { return e.reason }

// run is the state of one Run.
type run struct {
	*Target
	// resources are the ServiceEntries of the first response, by name.
	resources map[string]*discoveryv3.Resource
}

// Run checks the rules and returns their results in order.
func (t *Target) Run(ctx context.Context) []check.Result { return t.checkRules(ctx, rules()) }

// checkRules checks the rules and returns one result for each, in order. The detail is the note of
// a passed rule, the error of a failed one, which also has the hint, or the reason for skipping.
// After a required rule has failed, not if it was skipped, all later ones are skipped. A zero
// Timeout means ten seconds, a zero Quiet one second.
func (t *Target) checkRules(ctx context.Context, list []rule) []check.Result {
	o := *t
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Quiet == 0 {
		o.Quiet = time.Second
	}
	r := &run{Target: &o}
	var results []check.Result
	blocked := ""
	for _, x := range list {
		result := check.Result{Category: "adapter " + t.Address, Check: x.condition, Status: check.Pass}
		if blocked != "" {
			result.Status, result.Detail = check.Skip, "not checked, because this failed: "+blocked
			results = append(results, result)
			continue
		}
		detail, err := x.check(ctx, r)
		result.Detail = detail
		if err != nil {
			result.Status, result.Detail, result.Hint = check.Fail, err.Error(), x.hint
		}
		if _, skipped := err.(skipError); skipped { //nolint:errorlint // it is never wrapped
			result.Status, result.Hint = check.Skip, ""
		}
		if result.Status == check.Fail && x.required {
			blocked = x.condition
		}
		results = append(results, result)
	}
	return results
}

// connect returns a new client for the adapter, with TLS if r.TLS is set. It does not connect yet:
// a failure shows in the first stream. It accepts messages up to xds.MaxMessage. The caller closes
// it.
func (r *run) connect() (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if r.TLS != nil {
		transport = credentials.NewTLS(r.TLS)
	}
	return grpc.NewClient("passthrough:///"+r.Address, grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(xds.MaxMessage)))
}

// delta is a stream of the incremental variant on a connection of its own.
type delta struct {
	*run
	stream  discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	answers chan *discoveryv3.DeltaDiscoveryResponse
	ended   chan struct{} // closed when the stream has ended, with the reason in err
	err     error
	close   func()
}

// openDelta opens a stream of the incremental variant on a new connection. A goroutine receives
// answers until close is called, ctx ends or the stream ends. The caller must call close on the
// result, which waits for that. It returns an error if the stream cannot be opened; then there is
// nothing to close.
func (r *run) openDelta(ctx context.Context) (*delta, error) {
	conn, err := r.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		cancel()
		_ = conn.Close() // nothing depends on it
		return nil, err
	}
	d := &delta{run: r, stream: stream, answers: make(chan *discoveryv3.DeltaDiscoveryResponse),
		ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		for {
			answer, err := stream.Recv()
			if err != nil {
				d.err = err
				return
			}
			select {
			case d.answers <- answer:
			case <-ctx.Done():
				d.err = ctx.Err()
				return
			}
		}
	}()
	d.close = func() {
		cancel()
		_ = conn.Close() // nothing depends on it
		<-d.ended
	}
	return d, nil
}

// send sends a request. It ignores errors: the stream has ended then, and await returns the reason.
func (d *delta) send(q *discoveryv3.DeltaDiscoveryRequest) { _ = d.stream.Send(q) }

// subscribe sends the first request for a type, as a wildcard subscription, with the versions that
// the client has by resource name. A nil has claims none.
func (d *delta) subscribe(typeURL string, has map[string]string) {
	d.send(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeURL, InitialResourceVersions: has})
}

// acknowledge sends an ACK for an answer, or a NACK with the reason rejection if that is not empty.
func (d *delta) acknowledge(answer *discoveryv3.DeltaDiscoveryResponse, rejection string) {
	q := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: answer.GetTypeUrl(), ResponseNonce: answer.GetNonce()}
	if rejection != "" {
		q.ErrorDetail = newStatus(rejection)
	}
	d.send(q)
}

// await returns the next answer of a type. Answers of other types are dropped. It returns an error
// if the stream ends or Timeout passes.
func (d *delta) await(typeURL string) (*discoveryv3.DeltaDiscoveryResponse, error) {
	limit := time.After(d.Timeout)
	for {
		select {
		case answer := <-d.answers:
			if answer.GetTypeUrl() == typeURL {
				return answer, nil
			}
		case <-d.ended:
			return nil, fmt.Errorf("the stream ended: %w", d.err)
		case <-limit:
			return nil, fmt.Errorf("no answer for %s within %s", typeURL, d.Timeout)
		}
	}
}

// awaitQuiet receives answers for the time Quiet. It returns an error if the stream ends, or if an
// answer repeats a resource in the version that is listed in has. Other resources are ignored.
func (d *delta) awaitQuiet(has map[string]string) error {
	limit := time.After(d.Quiet)
	for {
		select {
		case answer := <-d.answers:
			for _, x := range answer.GetResources() {
				if v, known := has[x.GetName()]; known && v == x.GetVersion() {
					return fmt.Errorf("%s is sent again in the same version %q", x.GetName(), v)
				}
			}
		case <-d.ended:
			return fmt.Errorf("the stream ended: %w", d.err)
		case <-limit:
			return nil
		}
	}
}
