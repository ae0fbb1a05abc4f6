package cli

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// retiredResources returns the resources of kinds that Istio has retired and that the API server
// serves and can list: their CustomResourceDefinitions are still installed. Each is returned in the
// first version that serves it. A version that is not found is skipped. Any other error of a
// request is returned as it is, without resources.
func retiredResources(ctx context.Context, client *kube.Client) ([]schema.GroupVersionResource, error) {
	discovery := client.Kubernetes.Discovery()
	groups, err := discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	var list []schema.GroupVersionResource
	for _, group := range groups.Groups {
		if !slices.ContainsFunc(retired.Kinds(), func(k retired.Kind) bool { return k.Group == group.Name }) {
			continue
		}
		for _, version := range group.Versions {
			served, err := discovery.ServerResourcesForGroupVersionWithContext(ctx, version.GroupVersion)
			if apierrors.IsNotFound(err) { // its definitions were removed meanwhile
				continue
			}
			if err != nil {
				return nil, err
			}
			list = appendRetired(list, schema.GroupVersion{Group: group.Name, Version: version.Version}, served)
		}
	}
	return list, nil
}

// appendRetired appends the resources of retired kinds that a version of a group serves and that can
// be listed. It leaves out subresources, and resources that the list has in another version.
func appendRetired(
	list []schema.GroupVersionResource,
	version schema.GroupVersion,
	served *metav1.APIResourceList,
) []schema.GroupVersionResource {
	for _, r := range served.APIResources {
		resource := version.WithResource(r.Name)
		_, isRetired := retired.KindOf(version.Group, r.Kind)
		if !isRetired || strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") ||
			slices.ContainsFunc(list, func(o schema.GroupVersionResource) bool {
				return o.GroupResource() == resource.GroupResource()
			}) {
			continue
		}
		list = append(list, resource)
	}
	return list
}
