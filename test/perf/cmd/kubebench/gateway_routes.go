package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/meshpilot/meshpilot/test/perf/apiserver"
	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gatewayRoutes measures the cost of one edited HTTPRoute of many on one Gateway.
type gatewayRoutes struct {
	planes                         []string
	routes, proxies, edits, rounds int
	rest                           time.Duration
}

func gatewayRoutesCommand() *cobra.Command {
	o := gatewayRoutes{routes: 2000, proxies: 50, edits: 20, rounds: 1, rest: 15 * time.Second}
	c := &cobra.Command{
		Use:   "gateway-routes",
		Short: "Measure the CPU time and status writes of one edited HTTPRoute of many",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := c.Flags()
	f.StringSliceVar(&o.planes, "plane", nil, "control planes: meshpilot=BINARY, istiod=BINARY")
	f.IntVar(&o.routes, "routes", o.routes, "HTTPRoutes")
	f.IntVar(&o.proxies, "proxies", o.proxies, "connected proxies of the Gateway")
	f.IntVar(&o.edits, "edits", o.edits, "edited routes, one after the other")
	f.IntVar(&o.rounds, "rounds", o.rounds, "how often each control plane is started")
	f.DurationVar(&o.rest, "rest", o.rest, "how long each is left alone, and observed after the edits")
	return c
}

func (o gatewayRoutes) run(ctx context.Context) error {
	c, err := cluster.Up(ctx, cluster.Options{
		Tier: cluster.API, GatewayAPI: cluster.Standard, IstioKinds: true,
		Output: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Down(); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
		}
	}()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "istio-system"}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, system, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", system.Name, err)
	}
	if err := apiserver.FillGateway(ctx, c.Config(), o.routes, o.proxies); err != nil {
		return err
	}
	fmt.Println("| control plane | CPU per edited route | at rest | seen by all proxies after, median | status writes per edit | first status writes |")
	fmt.Println("|---|---|---|---|---|---|")
	edits := 0
	for range o.rounds {
		for _, text := range o.planes {
			p, err := target.ParsePlane(text)
			if err != nil {
				return err
			}
			if err := o.measure(ctx, c, p, &edits); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure starts a control plane with its proxies, edits routes, and prints a line of the table.
func (o gatewayRoutes) measure(ctx context.Context, c *cluster.Cluster, p target.Plane, edits *int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "kubebench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	writes, err := countWrites(ctx, d)
	if err != nil {
		return err
	}
	s := target.Settings{Dir: dir, Kubeconfig: c.Kubeconfig(), Environment: []string{"ENABLE_CA_SERVER=false"}}
	for _, address := range []*string{&s.XDS, &s.HTTP, &s.Monitoring} {
		if *address, err = serving.ReserveAddress(); err != nil {
			return err
		}
	}
	x, err := p.Start(ctx, s, log)
	if err != nil {
		text, _ := os.ReadFile(log.Name()) // for a person to read
		return fmt.Errorf("%w\n%s", err, text)
	}
	defer x.Stop(syscall.SIGTERM)
	f, err := o.connect(ctx, s.XDS)
	if err != nil {
		return err
	}
	defer f.Close()
	// Statuses are written by a leader, which may have to wait for the lease of the one before.
	if err := quiet(ctx, writes, o.rest); err != nil {
		return err
	}
	first, began := writes.Load(), x.CPU()
	if err := pause(ctx, o.rest); err != nil {
		return err
	}
	resting := x.CPU() - began
	began = x.CPU()
	start := time.Now()
	var took []time.Duration
	for range o.edits {
		*edits++
		t, err := o.edit(ctx, d, f, *edits)
		if err != nil {
			return err
		}
		took = append(took, t)
	}
	if err := quiet(ctx, writes, 5*time.Second); err != nil {
		return err
	}
	idle := time.Duration(float64(resting) * time.Since(start).Seconds() / o.rest.Seconds())
	each := (x.CPU() - began - idle) / time.Duration(o.edits)
	fmt.Printf("| %s | %.2f ms | %.2f %% | %d ms | %.1f | %d |\n", p.Kind, each.Seconds()*1000, 100*resting.Seconds()/o.rest.Seconds(),
		median(took).Milliseconds(), float64(writes.Load()-first-int64(o.edits))/float64(o.edits), first)
	return nil
}

// edit edits one route and waits until all proxies have it. It returns the duration.
func (o gatewayRoutes) edit(
	ctx context.Context,
	d dynamic.Interface,
	f *fleet.Fleet,
	number int,
) (time.Duration, error) {
	mark := workload.Mark{Change: workload.RouteEdit, Number: number}
	change := f.Expect(mark, nil, func(int) bool { return true })
	routes := d.Resource(apiserver.Routes).Namespace(apiserver.GatewayNamespace)
	route := apiserver.Route(number%o.routes, workload.HeaderValue(number))
	old, err := routes.Get(ctx, route.GetName(), metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	old.Object["spec"] = route.Object["spec"]
	began := time.Now()
	change.Begin()
	if _, err := routes.Update(ctx, old, metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	select {
	case <-change.Done:
		took := time.Since(began)
		return took, pause(ctx, 500*time.Millisecond) // so that edits are pushed separately
	case <-time.After(time.Minute):
		_, missing := change.Arrivals()
		return 0, fmt.Errorf("edit %d: %d proxies do not have it after a minute", number, missing)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// connect connects the proxies of the Gateway and waits until they have their configuration.
func (o gatewayRoutes) connect(ctx context.Context, xds string) (*fleet.Fleet, error) {
	var nodes []workload.Node
	for i := range o.proxies {
		n, err := routerNode(i)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	f, err := fleet.New(fleet.Options{Addresses: []string{xds}, Delta: true}, nodes)
	if err != nil {
		return nil, err
	}
	round := f.DisconnectProxies(fleet.IndexRange(0, o.proxies), true).Start()
	select {
	case <-round.Done:
		return f, nil
	case <-time.After(2 * time.Minute):
		err = fmt.Errorf("the proxies did not get their configuration within two minutes")
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.Close()
	return nil, err
}

// routerNode is a proxy of the Gateway.
func routerNode(i int) (workload.Node, error) {
	const ns = apiserver.GatewayNamespace
	name, ip := fmt.Sprintf("gateway-%05d", i), apiserver.ProxyAddress(i)
	metadata, err := structpb.NewStruct(map[string]any{
		"CLUSTER_ID": "Kubernetes", "INSTANCE_IPS": ip, "ISTIO_VERSION": "1.29.0", "NAME": name, "NAMESPACE": ns,
		"LABELS": map[string]any{"app": "gateway"}, "MESH_ID": "cluster.local", "SERVICE_ACCOUNT": "gateway",
	})
	if err != nil {
		return workload.Node{}, err
	}
	b, err := proto.Marshal(&corev3.Node{
		Id:       fmt.Sprintf("router~%s~%s.%s~%s.svc.cluster.local", ip, name, ns, ns),
		Cluster:  "gateway." + ns,
		Metadata: metadata,
	})
	return workload.Node{Namespace: ns, ServiceAccount: "gateway", Bytes: b}, err
}

// countWrites counts the writes of HTTPRoutes and Gateways from now on.
func countWrites(ctx context.Context, d dynamic.Interface) (*atomic.Int64, error) {
	n := new(atomic.Int64)
	for _, resource := range []schema.GroupVersionResource{apiserver.Routes, apiserver.Gateways} {
		list, err := d.Resource(resource).Namespace(apiserver.GatewayNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		w, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return d.Resource(resource).Namespace(apiserver.GatewayNamespace).Watch(ctx, o)
			},
		})
		if err != nil {
			return nil, err
		}
		go func() {
			defer w.Stop()
			for e := range w.ResultChan() {
				switch e.Type {
				case watch.Modified:
					n.Add(1)
				case watch.Error:
					fmt.Fprintln(os.Stderr, "Error: the watch that counts writes ended:", e.Object)
				}
			}
		}()
	}
	return n, nil
}

// quiet waits until nothing was written for a while.
func quiet(ctx context.Context, writes *atomic.Int64, while time.Duration) error {
	for before := int64(-1); before != writes.Load(); {
		before = writes.Load()
		if err := pause(ctx, while); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
