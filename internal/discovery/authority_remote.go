package discovery

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/mesh"
	kubesource "github.com/meshpilot/meshpilot/internal/source/kube"
)

// controlledBy is the annotation of the control plane's namespace in a remote cluster that names the clusters whose control planes look
// after it, or "*". Where it names ours, the cluster has none of its own, and the roots are for us to publish.
const controlledBy = "topology.istio.io/controlPlaneClusters"

// withRoots reads a remote cluster, and publishes the roots there while it does.
type withRoots struct {
	*kubesource.Source
	s      *server
	id     mesh.ClusterID
	client *kube.Client
}

// Run reads the cluster until the context ends.
func (w withRoots) Run(ctx context.Context, out chan<- mesh.Batch) error {
	publishing, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	defer done.Wait()
	defer stop()
	done.Go(func() { w.publish(publishing) })
	return w.Source.Run(ctx, out)
}

// controlledRetry is how often the annotation is looked at.
const controlledRetry = time.Minute

func (w withRoots) publish(ctx context.Context) {
	a := w.s.authority
	if a.issuer == nil || a.o.NoRootConfigMaps || w.s.elections == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-a.opened:
	}
	for !w.controlled(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(controlledRetry):
		}
	}
	// The lease is in our own cluster: replicas of another control plane that look after the same one write the same.
	err := w.s.lead(ctx, leader.RootCertificates+"-"+strings.ToLower(string(w.id)), func(ctx context.Context) {
		if err := w.s.publishRoots(ctx, w.client.Kubernetes); err != nil {
			a.log.Error("the roots are not published", "cluster", w.id, "err", err)
		}
	})
	if err != nil {
		a.log.Error("the roots are not published", "cluster", w.id, "err", err)
	}
}

// controlled says whether the cluster is one that we look after.
func (w withRoots) controlled(ctx context.Context) bool {
	ns, err := w.client.Kubernetes.CoreV1().Namespaces().Get(ctx, w.s.options.Namespace, metav1.GetOptions{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(strings.Split(ns.Annotations[controlledBy], ","), func(name string) bool {
		name = strings.TrimSpace(name)
		return name == "*" || name == w.s.options.ClusterID && name != ""
	})
}
