package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// fieldManager is the owner of applied fields.
const fieldManager = "meshpilot-test"

// Apply creates or changes the objects of YAML documents (server-side apply). Objects of namespaced
// kinds that name no namespace go into `default`.
func (c *Cluster) Apply(ctx context.Context, documents string) error {
	config := c.Config()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(finder))
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(documents)), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("apply: read documents: %w", err)
		}
		if len(object.Object) == 0 {
			continue // a comment
		}
		if err := applyObject(ctx, client, mapper, object); err != nil {
			return fmt.Errorf("apply %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
}

func applyObject(
	ctx context.Context,
	client dynamic.Interface,
	mapper meta.RESTMapper,
	object *unstructured.Unstructured,
) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			object.SetNamespace(metav1.NamespaceDefault)
		}
		resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}
