package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// Class is a GatewayClass that is created if it does not exist. The API allows 64 characters of
// description.
type Class struct {
	Name, Controller, Description string
}

// DefaultClasses returns the classes that every cluster with the Gateway API has: istio and
// meshpilot, whose Gateways are deployed, and istio-remote for Gateways outside of the cluster.
func DefaultClasses() []Class {
	return []Class{
		{Name: "istio", Controller: ControllerName, Description: "Gateways that meshpilot deploys; named as in Istio"},
		{Name: "meshpilot", Controller: ControllerName, Description: "Gateways that meshpilot deploys"},
		{
			Name: "istio-remote", Controller: RemoteControllerName,
			Description: "Gateways outside of this cluster",
		},
	}
}

// ClassCreator creates GatewayClasses that do not exist.
type ClassCreator struct {
	Client  *kube.Client
	Classes []Class
	Log     *slog.Logger
}

func classResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: gatewayv1.GroupName, Version: "v1", Resource: "gatewayclasses"}
}

// Run creates missing classes whenever the kind GatewayClass is installed or a class is deleted,
// until ctx ends. It does not change existing classes. Failures are retried. A missing definition
// of the kind is no error.
func (c *ClassCreator) Run(ctx context.Context) {
	changes := notify.NewWake()
	definitions := c.watch(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}, "gatewayclasses."+gatewayv1.GroupName, changes)
	ended := make(chan struct{})
	go func() { defer close(ended); definitions.RunWithContext(ctx) }()
	defer func() { <-ended }()
	var classes cache.SharedIndexInformer
	classesEnded := make(chan struct{})
	defer func() {
		if classes != nil {
			<-classesEnded
		}
	}()
	for {
		var retry <-chan time.Time
		if installed := len(definitions.GetStore().List()) > 0; installed {
			if classes == nil {
				classes = c.watch(classResource(), "", changes)
				go func() { defer close(classesEnded); classes.RunWithContext(ctx) }()
			}
			if err := c.createMissing(ctx, classes); err != nil && ctx.Err() == nil {
				c.Log.Warn("creating GatewayClasses failed, retrying", "error", err)
				retry = time.After(maxBackoff)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changes.C():
		case <-retry:
		}
	}
}

// watch returns an informer of the metadata of a resource, or of one object of it if a name is set.
// The informer is not started. It notifies changed of each object that is added or deleted.
func (c *ClassCreator) watch(r schema.GroupVersionResource, name string,
	changed notify.Wake) cache.SharedIndexInformer {
	informer := metadatainformer.NewFilteredMetadataInformer(
		c.Client.Metadata, r, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			if name != "" {
				o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
			}
		},
	).Informer()
	// These fail only after the start.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed.Notify() }, DeleteFunc: func(any) { changed.Notify() },
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		c.Log.Debug("watching GatewayClasses failed, retrying", "resource", r.Resource, "error", err)
	})
	return informer
}

// createMissing creates the classes that the informer existing does not have. It returns an error
// if the informer does not sync within syncTimeout, or for the first class that cannot be created.
// A class that exists by now is no error.
func (c *ClassCreator) createMissing(ctx context.Context, existing cache.SharedIndexInformer) error {
	waiting, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(waiting.Done(), existing.HasSynced) {
		return fmt.Errorf("list GatewayClasses: no answer within %v", syncTimeout)
	}
	for _, class := range c.Classes {
		if _, exists, _ := existing.GetStore().GetByKey(class.Name); exists {
			continue
		}
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": gatewayv1.GroupVersion.String(),
			"kind":       "GatewayClass",
			"metadata":   map[string]any{"name": class.Name},
			"spec":       map[string]any{"controllerName": class.Controller, "description": class.Description},
		}}
		_, err := c.Client.Dynamic.Resource(classResource()).Create(ctx, u,
			metav1.CreateOptions{FieldManager: FieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create GatewayClass %s: %w", class.Name, err)
		}
	}
	return nil
}
