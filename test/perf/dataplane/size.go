package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// stopTime bounds the end of an Envoy: one with 20,000 clusters on a busy machine takes seconds.
	stopTime = time.Minute
	// pageTime bounds the answer of an admin interface: large dumps take seconds.
	pageTime = 5 * time.Minute
)

// Size is what one sidecar costs. All figures but Received are 0 if upstream Envoy cannot load the
// configuration.
type Size struct {
	Services int
	Variant  Variant
	// Resident is the resident memory of Envoy, Allocated what its allocator has handed out.
	Resident, Allocated int64
	// Ready is the time from the start of the process until it is ready, CPU the CPU time until then.
	Ready, CPU time.Duration
	// Received are the bytes that the control plane sent.
	Received int64
	// Dump are the bytes of Envoy's configuration as JSON, by type ("Listeners").
	Dump map[string]int64
}

// String returns the size in one line.
func (s Size) String() string {
	return fmt.Sprintf("%d services, %s: %.1f MiB resident, %.1f MiB allocated, ready after %v with %v of CPU, %d bytes received",
		s.Services, s.Variant.name(), mebibytes(s.Resident), mebibytes(s.Allocated),
		s.Ready.Round(time.Millisecond), s.CPU.Round(time.Millisecond), s.Received)
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// measureSize measures a sidecar of a control plane that was started for this measurement alone.
func (o Options) measureSize(ctx context.Context, n *netns.Node, p *plane) (Size, error) {
	x := sidecar{
		name: "client", address: clientAddress, discovery: p.socket, identity: filepath.Join(p.settings.Dir, "sds"),
		onDemand: p.variant.OnDemand,
	}
	before := p.sent.Load()
	if !p.variant.acceptedByEnvoy() {
		err := p.connectWithoutEnvoy(ctx, x)
		return Size{Received: p.sent.Load() - before}, err
	}
	i, err := serveIdentity(x.identity, x.name, pki.Authority("dataplane"))
	if err != nil {
		return Size{}, err
	}
	s, err := o.measureEnvoy(ctx, n, x)
	s.Received = p.sent.Load() - before
	return s, errors.Join(err, i.close())
}

// measureEnvoy starts an Envoy, measures it, and stops it.
func (o Options) measureEnvoy(ctx context.Context, n *netns.Node, x sidecar) (Size, error) {
	b, err := x.newBootstrap()
	if err != nil {
		return Size{}, err
	}
	var s Size
	began := time.Now()
	process, err := o.start(n, b)
	if err != nil {
		return s, err
	}
	if err = awaitReady(ctx, process); err == nil {
		s.Ready, s.CPU = time.Since(began), target.CPUOf(process.PID())
		s.Resident, _ = target.ResidentOf(process.PID()) // before the dump, which needs memory of its own
		s.Allocated, s.Dump, err = readAdmin(ctx, n)
	}
	if late := process.Stop(stopTime); late != nil { // it is measured already
		fmt.Fprintf(o.Progress, "%v\n", late)
	}
	return s, err
}

// readAdmin reads the allocated memory and the sizes of the configuration from Envoy.
func readAdmin(ctx context.Context, n *netns.Node) (allocated int64, dump map[string]int64, err error) {
	client := n.Client(pageTime)
	defer client.CloseIdleConnections()
	var memory struct{ Allocated string }
	if err := getJSON(ctx, client, "/memory", &memory); err != nil {
		return 0, nil, err
	}
	if allocated, err = strconv.ParseInt(memory.Allocated, 10, 64); err != nil {
		return 0, nil, fmt.Errorf("memory of Envoy: %w", err)
	}
	var page struct{ Configs []json.RawMessage }
	if err := getJSON(ctx, client, "/config_dump?include_eds", &page); err != nil {
		return 0, nil, err
	}
	dump = map[string]int64{}
	for _, c := range page.Configs {
		var typed struct {
			Type string `json:"@type"`
		}
		if err := json.Unmarshal(c, &typed); err != nil {
			return 0, nil, err
		}
		dump[typed.Type] += int64(len(c))
	}
	return allocated, dump, nil
}

func getJSON(ctx context.Context, client *http.Client, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// connectWithoutEnvoy receives the configuration of a sidecar like Envoy, but does not load it.
func (p *plane) connectWithoutEnvoy(ctx context.Context, x sidecar) error {
	n, err := x.newNode()
	if err != nil {
		return err
	}
	encoded, err := proto.Marshal(n.Proto())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	relay := serving.Forward(l, p.dial)
	options := fleet.Options{Addresses: []string{relay.Address()}, Delta: true}
	f, err := fleet.New(options, []workload.Node{{Bytes: encoded}})
	if err != nil {
		return errors.Join(err, relay.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	select {
	case <-f.DisconnectProxies([]int{0}, true).Start().Done:
	case <-ctx.Done():
		err = fmt.Errorf("a client does not receive all configuration: %w", ctx.Err())
	}
	f.Close()
	return errors.Join(err, relay.Close())
}
