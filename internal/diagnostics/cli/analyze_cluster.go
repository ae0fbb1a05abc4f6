package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// pageSize is the number of objects that are requested at a time.
const pageSize = 500

// readCluster reads the objects of a cluster that are analyzed, also of retired kinds whose
// definitions are still installed. Kinds that are not installed are left out. So are, with a line
// in warnings, kinds that the user may not list, and retired kinds if API groups may not be listed.
// It returns any other error.
func readCluster(ctx context.Context, o connect.Options, warnings io.Writer) ([]lint.File, error) {
	client, err := o.Client()
	if err != nil {
		return nil, err
	}
	files, err := readResources(ctx, client, clusterResources(), warnings,
		"references to them may be reported as missing")
	if err != nil {
		return nil, err
	}
	resources, err := retiredResources(ctx, client)
	if apierrors.IsForbidden(err) {
		fmt.Fprintln(warnings, "warning: no permission to list the API groups: objects of retired kinds are not reported")
		return files, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the API groups: %w", err)
	}
	retired, err := readResources(ctx, client, resources, warnings, "objects of this retired kind are not reported")
	return append(files, retired...), err
}

// readResources returns a file "cluster/RESOURCE.json" for each resource, with its objects of all
// namespaces. Of several versions of a resource, which follow each other, it reads the first one
// that is served. A resource that is not installed, or that the user may not list, has no file. A
// line of warnings names the latter and the consequence. Any other error is returned without files.
func readResources(
	ctx context.Context,
	client *kube.Client,
	resources []schema.GroupVersionResource,
	warnings io.Writer,
	consequence string,
) ([]lint.File, error) {
	var files []lint.File
	var found schema.GroupResource
	for _, r := range resources {
		if r.GroupResource() == found {
			continue
		}
		text, err := listObjects(ctx, client, r)
		if apierrors.IsNotFound(err) {
			continue
		}
		found = r.GroupResource()
		if apierrors.IsForbidden(err) {
			fmt.Fprintf(warnings, "warning: no permission to list %s: %s\n", r.GroupResource(), consequence)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		files = append(files, lint.File{Name: "cluster/" + r.GroupResource().String() + ".json", Text: text})
	}
	return files, nil
}

// clusterResources returns the resources that are analyzed: Deployments, StatefulSets, DaemonSets,
// webhook configurations, CustomResourceDefinitions, and api.Kinds in all their versions, the
// newest first. EndpointSlices are left out, because endpoints derive from pods, as for files.
// RemoteSecrets are left out too.
func clusterResources() []schema.GroupVersionResource {
	list := []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	}
	for _, k := range api.Kinds() {
		if k.Kind == api.RemoteSecret || k.Kind == api.EndpointSlice {
			continue
		}
		for _, version := range k.Versions {
			list = append(list, schema.GroupVersionResource{Group: k.Group, Version: version, Resource: k.Plural})
		}
	}
	return list
}

// listObjects returns all objects of a resource, of all namespaces, as a List in JSON without their
// managed fields. It reads pages of pageSize; an error of one is returned without objects.
func listObjects(ctx context.Context, client *kube.Client, r schema.GroupVersionResource) ([]byte, error) {
	all := struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}{Kind: "List", Items: []map[string]any{}}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.Dynamic.Resource(r).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			o.SetManagedFields(nil)
			all.Items = append(all.Items, o.Object)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return json.Marshal(all)
		}
	}
}
