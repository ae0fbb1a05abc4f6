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

// Intervals at which a remote cluster's annotation is checked, normally and after an error.
const (
	chosenRecheck = 30 * time.Second
	chosenRetry   = time.Second
)

// lookAfterClusters manages the remote clusters that have no control plane of their own and name
// this one in an annotation (EXTERNAL_ISTIOD). It publishes the mesh roots there and keeps the CA
// bundle of their webhook configurations up to date. It does nothing unless Remote.External is set.
func (s *server) lookAfterClusters(ctx context.Context) {
	if s.clusters == nil || !s.options.Remote.External {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-s.authority.Opened():
	}
	s.clusters.Each(ctx, s.lookAfterCluster)
}

// lookAfterCluster manages a remote cluster while its annotation names this control plane, until
// ctx ends. An error while reading the annotation changes nothing.
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
		case err != nil: // The last known choice remains in effect.
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

// chosenBy reports whether a remote cluster selects this control plane. It does if the control
// plane's namespace there has the annotation topology.istio.io/controlPlaneClusters with the name
// of this cluster or "*".
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

// startLookingAfter starts to manage a remote cluster. The returned function stops that and waits
// until it has ended.
func (s *server) startLookingAfter(ctx context.Context, id mesh.ClusterID, client *kube.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	failed := func(what string, err error) {
		if err != nil {
			s.log.Error(what+" in a remote cluster ended", "cluster", string(id), "err", err)
		}
	}
	if s.authority.PublishesRoots() {
		parts.Go(func() {
			// The lease is in our own cluster. A replica of another control plane that manages the
			// same cluster writes the same content.
			failed("election", s.elections.Run(ctx, leader.RootCertificates+"-"+strings.ToLower(string(id)), func(ctx context.Context) {
				failed("publishing the roots", s.authority.PublishRoots(ctx, client.Kubernetes))
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
