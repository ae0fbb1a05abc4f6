package external

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"istio.io/api/annotation"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Intervals at which a remote cluster's annotation is checked, normally and after an error.
const (
	checkInterval = 30 * time.Second
	checkRetry    = time.Second
)

// Task is something that is done for an external cluster.
type Task struct {
	// Name is that of the task in logs.
	Name string
	// Run runs the task until ctx ends.
	Run func(ctx context.Context, id mesh.ClusterID, client *kube.Client) error
}

// Options are the settings of Clusters.
type Options struct {
	// Namespace is the control plane's namespace, ClusterID the name of its cluster.
	Namespace, ClusterID string
	// Tasks are run for each cluster that selects this control plane.
	Tasks []Task
	Log   *slog.Logger
}

// Clusters manages external clusters.
type Clusters struct{ o Options }

// New returns Clusters. It sends no request.
func New(o Options) *Clusters { return &Clusters{o} }

// Manage runs the tasks for a remote cluster while its annotation names this control plane, until
// ctx ends. If the annotation cannot be read, the tasks run on or stay stopped. It looks every
// checkInterval, and after an error every checkRetry.
func (c *Clusters) Manage(ctx context.Context, id mesh.ClusterID, client *kube.Client) {
	var stop func()
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			if stop != nil {
				stop()
			}
			return
		case <-time.After(pause):
		}
		selected, err := c.isSelectedBy(ctx, client.Kubernetes)
		switch pause = checkInterval; {
		case err != nil: // The last known choice remains in effect.
			pause = checkRetry
		case selected && stop == nil:
			c.o.Log.Info("managing an external cluster, which selects this control plane", "cluster", string(id))
			stop = c.start(ctx, id, client)
		case !selected && stop != nil:
			c.o.Log.Info("external cluster no longer managed, because it does not select this control plane", "cluster",
				string(id))
			stop()
			stop = nil
		}
	}
}

// isSelectedBy reports whether a remote cluster selects this control plane. It does if the control
// plane's namespace there has the annotation topology.istio.io/controlPlaneClusters, a
// comma-separated list, with the name of this cluster or "*". A missing namespace selects none; any
// other failed request is an error.
func (c *Clusters) isSelectedBy(ctx context.Context, client kubernetes.Interface) (bool, error) {
	ns, err := client.CoreV1().Namespaces().Get(ctx, c.o.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	clusters := strings.Split(ns.Annotations[annotation.TopologyControlPlaneClusters.Name], ",")
	return slices.ContainsFunc(clusters, func(name string) bool {
		name = strings.TrimSpace(name)
		return name == "*" || name == c.o.ClusterID && name != ""
	}), nil
}

// start starts the tasks for a remote cluster. The returned function stops them and waits until
// they have ended. A task that returns an error is logged.
func (c *Clusters) start(ctx context.Context, id mesh.ClusterID, client *kube.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, task := range c.o.Tasks {
		running.Go(func() {
			if err := task.Run(ctx, id, client); err != nil {
				c.o.Log.Error("task for an external cluster ended", "task", task.Name, "cluster", string(id), "err",
					err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}
