package discovery

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"istio.io/api/annotation"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/kube/webhook"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// How often is looked whether a remote cluster has us look after it, and how soon again after an error.
const (
	chosenRecheck = 30 * time.Second
	chosenRetry   = time.Second
)

// lookAfterClusters does for remote clusters that have no control plane of their own what one would do there: it publishes the
// mesh's roots, and has the cluster's API server trust our webhooks. They name us in an annotation (EXTERNAL_ISTIOD).
func (s *server) lookAfterClusters(ctx context.Context) {
	if s.clusters == nil || !s.options.Remote.External {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-s.authority.opened:
	}
	s.clusters.Each(ctx, s.lookAfterCluster)
}

// lookAfterCluster looks after a remote cluster for as long as that wants it, until the context ends.
func (s *server) lookAfterCluster(ctx context.Context, id mesh.ClusterID, client *kube.Client) {
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
		chosen, err := s.chosenBy(ctx, client)
		switch pause = chosenRecheck; {
		case err != nil: // what it wanted last still holds
			pause = chosenRetry
		case chosen && stop == nil:
			s.log.Info("this control plane looks after a remote cluster", "cluster", string(id))
			stop = s.startLookingAfter(ctx, id, client)
		case !chosen && stop != nil:
			s.log.Info("this control plane looks after a remote cluster no more", "cluster", string(id))
			stop()
			stop = nil
		}
	}
}

// chosenBy says whether a remote cluster has this control plane as its own: whether the control plane's namespace there has the
// annotation topology.istio.io/controlPlaneClusters with our cluster's name, or "*".
func (s *server) chosenBy(ctx context.Context, client *kube.Client) (bool, error) {
	ns, err := client.Kubernetes.CoreV1().Namespaces().Get(ctx, s.options.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(strings.Split(ns.Annotations[annotation.TopologyControlPlaneClusters.Name], ","), func(name string) bool {
		name = strings.TrimSpace(name)
		return name == "*" || name == s.options.ClusterID && name != ""
	}), nil
}

// startLookingAfter looks after a remote cluster until the function that it gives has returned.
func (s *server) startLookingAfter(ctx context.Context, id mesh.ClusterID, client *kube.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	failed := func(what string, err error) {
		if err != nil {
			s.log.Error(what+" in a remote cluster ended", "cluster", string(id), "err", err)
		}
	}
	if a := s.authority; a.issuer != nil && s.elections != nil && !a.o.NoRootConfigMaps {
		parts.Go(func() {
			// The lease is in our own cluster: replicas of another control plane that look after the same one write the same.
			failed("election", s.lead(ctx, leader.RootCertificates+"-"+strings.ToLower(string(id)), func(ctx context.Context) {
				failed("publishing the roots", s.publishRoots(ctx, client.Kubernetes))
			}))
		})
	}
	if w := s.webhooks; w != nil && w.configs != nil && w.configs.Injection {
		configs := webhook.Configurations{
			Client: client.Kubernetes, Revision: w.configs.Revision, Injection: true, CABundle: w.configs.CABundle,
			Metrics: w.configs.Metrics, Log: w.configs.Log.With("cluster", string(id)),
		}
		parts.Go(func() { failed("keeping the webhooks", configs.Run(ctx)) })
	}
	return func() {
		cancel()
		parts.Wait()
	}
}
