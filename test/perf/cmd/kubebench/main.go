// kubebench fills a real API server with services and pods that do not run, starts control planes
// one after the other, and measures the time and memory of each: see docs/BENCHMARKS.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/test/perf/apiserver"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

type options struct {
	size   apiserver.Size
	planes []string
	rounds int
	rest   time.Duration
}

func rootCommand() *cobra.Command {
	o := options{size: apiserver.Size{Namespaces: 20, Services: 1000, Pods: 5000}}
	c := &cobra.Command{
		Use:           "kubebench",
		Short:         "Measure what control planes take to read and hold an API server",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return o.runBench(c.Context()) },
	}
	c.AddCommand(gatewayRoutesCommand())
	f := c.Flags()
	f.IntVar(&o.size.Namespaces, "namespaces", o.size.Namespaces, "namespaces")
	f.IntVar(&o.size.Services, "services", o.size.Services, "services")
	f.IntVar(&o.size.Pods, "pods", o.size.Pods, "pods")
	f.StringSliceVar(&o.planes, "plane", nil, "control planes: meshpilot=BINARY, istiod=BINARY")
	f.IntVar(&o.rounds, "rounds", 2, "how often each is started")
	f.DurationVar(&o.rest, "rest", 20*time.Second, "how long each is left alone")
	return c
}

func (o options) runBench(ctx context.Context) error {
	var planes []target.Plane
	for _, text := range o.planes {
		p, err := target.ParsePlane(text)
		if err != nil {
			return err
		}
		planes = append(planes, p)
	}
	c, err := cluster.Up(
		ctx,
		cluster.Options{IstioKinds: true, Output: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		}},
	)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Down(); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
		}
	}()
	began := time.Now()
	if err := prepareCluster(ctx, c, o.size); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d services and %d pods were written in %v\n", o.size.Services,
		o.size.Pods, time.Since(began).Round(time.Second))
	fmt.Println(
		"| control plane | ready after | CPU until then | CPU at rest, of one | live heap | resident | resident at most |",
	)
	fmt.Println("|---|---|---|---|---|---|---|")
	for range o.rounds {
		for _, p := range planes {
			if err := o.measurePlane(ctx, c, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func prepareCluster(ctx context.Context, c *cluster.Cluster, size apiserver.Size) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "istio-system"}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, system, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", system.Name, err)
	}
	return apiserver.Fill(ctx, c.Config(), size)
}

// measurePlane starts a control plane, and prints its line of the table.
func (o options) measurePlane(ctx context.Context, c *cluster.Cluster, p target.Plane) error {
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
	s := target.Settings{
		Dir:         dir,
		Kubeconfig:  c.Kubeconfig(),
		Environment: []string{"ENABLE_CA_SERVER=false", "PILOT_ENABLE_STATUS=false"},
	}
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
	before := x.CPU()
	select {
	case <-time.After(o.rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	resting := x.CPU() - before
	uncollected := x.Memory(false)
	m := x.Memory(true)
	fmt.Printf("| %s | %.1f s | %.2f s | %.2f %% | %.1f MiB | %.1f MiB | %.1f MiB |\n", p.Kind,
		x.Started.Seconds(), x.StartCPU.Seconds(), 100*resting.Seconds()/o.rest.Seconds(),
		toMebibytes(m.Heap), toMebibytes(uncollected.RSS), toMebibytes(x.Peak()))
	return nil
}

func toMebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
