package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// checkSilence acknowledges the resources of the first ServiceEntry answer and requests another
// type. It fails if the stream ends, or if an acknowledged resource is sent again in the same
// version within Quiet. It returns no note.
func checkSilence(ctx context.Context, r *run) (string, error) { return r.checkAcknowledged(ctx, "") }

// checkRejection rejects the first ServiceEntry answer (NACK) and requests another type. It fails
// if the stream ends, or if a rejected resource is sent again in the same version within Quiet. It
// returns no note.
func checkRejection(ctx context.Context, r *run) (string, error) {
	return r.checkAcknowledged(ctx, "pilotctl adapter test rejects a valid response")
}

// checkAcknowledged acknowledges the first answer for ServiceEntries, or rejects it with the reason
// rejection if that is not empty. Then it requests VirtualServices, which need not be answered. It
// fails if no first answer arrives within Timeout. It also fails if the stream then ends within
// Quiet, or a resource of that answer is sent again in the same version. The note is always "".
func (r *run) checkAcknowledged(ctx context.Context, rejection string) (string, error) {
	d, err := r.openDelta(ctx)
	if err != nil {
		return "", err
	}
	defer d.close()
	d.subscribe(serviceEntries(), nil)
	answer, err := d.await(serviceEntries())
	if err != nil {
		return "", err
	}
	d.acknowledge(answer, rejection)
	d.subscribe(xds.TypeURLs()[api.VirtualService], nil)
	return "", d.awaitQuiet(versions(answer.GetResources()))
}

// checkReconnect begins a stream with the versions of all resources, and fails if one of them is
// sent again in that version. It also fails if a stream ends or gets no answer within Timeout. The
// note is always "". A removed resource is no failure.
func checkReconnect(ctx context.Context, r *run) (string, error) {
	before, err := r.readAll(ctx, nil)
	if err != nil {
		return "", err
	}
	has := versions(before.GetResources())
	answer, err := r.readAll(ctx, has)
	if err != nil {
		return "", err
	}
	for _, x := range answer.GetResources() {
		if has[x.GetName()] == x.GetVersion() {
			return "", fmt.Errorf("%s is sent again in the version %q that the client has", x.GetName(), x.GetVersion())
		}
	}
	return "", nil
}

// checkOutdated begins a stream with another version of the resource whose name sorts first. It
// fails if that resource is neither sent with a version nor removed, or if a stream gets no answer
// within Timeout. It returns a skipError if there are no services. The note is always "".
func checkOutdated(ctx context.Context, r *run) (string, error) {
	before, err := r.readAll(ctx, nil)
	if err != nil {
		return "", err
	}
	has := versions(before.GetResources())
	if len(has) == 0 {
		return "", skipError{"there are no services"}
	}
	name := slices.Min(slices.Collect(maps.Keys(has)))
	has[name] = "another version"
	answer, err := r.readAll(ctx, has)
	if err != nil {
		return "", err
	}
	if versions(answer.GetResources())[name] == "" && !slices.Contains(answer.GetRemovedResources(), name) {
		return "", fmt.Errorf("%s stays in another version", name)
	}
	return "", nil
}

// checkRemoved begins a stream with a resource that does not exist. It fails if the first answer
// does not remove it, or none arrives within Timeout. The note is always "".
func checkRemoved(ctx context.Context, r *run) (string, error) {
	const name = "default/pilotctl-adapter-test-deleted"
	answer, err := r.readAll(ctx, map[string]string{name: "1"})
	if err != nil {
		return "", err
	}
	if !slices.Contains(answer.GetRemovedResources(), name) {
		return "", errors.New("a resource that does not exist stays")
	}
	return "", nil
}

// checkGarbage sends requests that no control plane sends, on one stream each. Their answers do not
// matter. It fails if the adapter then neither answers a valid request within Timeout nor ends the
// stream. It also fails if the older stream of another client, or a new client, then gets no
// answer. The note is always "".
func checkGarbage(ctx context.Context, r *run) (string, error) {
	other, err := r.openDelta(ctx)
	if err != nil {
		return "", err
	}
	defer other.close()
	other.subscribe(serviceEntries(), nil)
	if _, err := other.await(serviceEntries()); err != nil {
		return "", err
	}
	for _, q := range []*discoveryv3.DeltaDiscoveryRequest{
		{},
		{TypeUrl: "example.com/v1/Unknown", ResourceNamesSubscribe: []string{"", "*", "a/b/c"}},
		{TypeUrl: serviceEntries(), ResponseNonce: "a nonce that was never sent"},
		{TypeUrl: serviceEntries(), ErrorDetail: newStatus("before the first response")},
		{TypeUrl: serviceEntries(), ResourceNamesUnsubscribe: []string{"*", "default/unknown"}},
	} {
		d, err := r.openDelta(ctx)
		if err != nil {
			return "", err
		}
		d.send(q)
		// The adapter has handled q when it answers the next request or ends the stream.
		kind := xds.TypeURLs()[api.VirtualService]
		d.subscribe(kind, nil)
		_, err = d.await(kind)
		ended := false
		select {
		case <-d.ended:
			ended = true
		default:
		}
		d.close()
		if err != nil && !ended {
			return "", fmt.Errorf("after the request {%s}: %w", q, err)
		}
	}
	other.subscribe(xds.TypeURLs()[api.VirtualService], nil)
	if _, err := other.await(xds.TypeURLs()[api.VirtualService]); err != nil {
		return "", fmt.Errorf("the stream of another client: %w", err)
	}
	if _, err := r.readAll(ctx, nil); err != nil {
		return "", fmt.Errorf("a new client: %w", err)
	}
	return "", nil
}

// checkSlowClient subscribes to all types and reads no answers. After Quiet, the adapter has had
// time to fill its buffers for that client. It fails if another client then gets no answer
// within Timeout, or if ctx ends. The note is always "".
func checkSlowClient(ctx context.Context, r *run) (string, error) {
	slow, err := r.openDelta(ctx)
	if err != nil {
		return "", err
	}
	defer slow.close()
	for _, url := range slices.Sorted(maps.Values(xds.TypeURLs())) {
		slow.subscribe(url, nil)
	}
	select {
	case <-time.After(r.Quiet):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	_, err = r.readAll(ctx, nil)
	return "", err
}

// clients is how many clients checkManyClients has at the same time.
const clients = 50

// checkManyClients opens streams one after the other, each with a request for ServiceEntries, and
// acknowledges their answers. It fails at the first stream that gets no answer within Timeout. All
// stay open until it returns. The note has their number, the constant clients.
func checkManyClients(ctx context.Context, r *run) (string, error) {
	for range clients {
		d, err := r.openDelta(ctx)
		if err != nil {
			return "", err
		}
		defer d.close() // all stay open until the last one is answered
		d.subscribe(serviceEntries(), nil)
		answer, err := d.await(serviceEntries())
		if err != nil {
			return "", err
		}
		d.acknowledge(answer, "")
	}
	return fmt.Sprintf("%d clients", clients), nil
}
