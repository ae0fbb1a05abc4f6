package chart

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestDigestsAndPullSecrets: with images by digest and a pull secret in the values, each container of
// the charts and of injected pods has an image by digest, and each pod or its account the secret.
func TestDigestsAndPullSecrets(t *testing.T) {
	h := newHelm(t, "")
	const secret = "registry"
	digest := "@sha256:" + strings.Repeat("5f", 32)
	image := func(name string) string { return "=registry.example.com:5000/mesh/" + name + digest }
	render := func(which string, sets ...string) string {
		t.Helper()
		return h.run(t, append([]string{"template", "x", chart(which), "-n", "mesh"}, arguments(append(sets, "global.imagePullSecrets={"+secret+"}"))...)...)
	}
	istiod := render("istiod", "image"+image("pilot"), "global.proxy.image"+image("proxyv2"), "global.proxy_init.image"+image("proxyv2"))
	cni := render("cni", "image"+image("install-cni"))
	settings := injection(t, istiod)
	deployed := podOf(t, deployedGateway(t, h), "Deployment")
	web := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web" + digest}}}}
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		manifest string // with the pod's account, if it has one of the chart
	}{
		"control plane":    {podOf(t, istiod, "Deployment"), istiod},
		"helm test":        {podOf(t, istiod, "Pod"), istiod},
		"agent of CNI":     {podOf(t, cni, "DaemonSet"), cni},
		"gateway":          {pod: injectPod(t, settings, podOf(t, render("gateway"), "Deployment"))},
		"deployed gateway": {pod: injectPod(t, settings, deployed)},
		"workload":         {pod: injectPod(t, settings, web)},
	} {
		for _, container := range slices.Concat(c.pod.Spec.InitContainers, c.pod.Spec.Containers) {
			if !strings.HasSuffix(container.Image, digest) {
				t.Errorf("%s: container %s has the image %s", name, container.Name, container.Image)
			}
		}
		secrets := slices.Concat(c.pod.Spec.ImagePullSecrets, accountSecrets(t, c.manifest, c.pod.Spec.ServiceAccountName))
		if !slices.Contains(secrets, corev1.LocalObjectReference{Name: secret}) {
			t.Errorf("%s: pull secrets %v", name, secrets)
		}
	}
}

// accountSecrets returns the pull secrets of a ServiceAccount in a manifest.
func accountSecrets(t *testing.T, manifest, name string) []corev1.LocalObjectReference {
	t.Helper()
	for _, o := range objects(t, manifest) {
		if o.GetKind() == "ServiceAccount" && o.GetName() == name {
			account := &corev1.ServiceAccount{}
			convertStrictly(t, o, account)
			return account.ImagePullSecrets
		}
	}
	return nil
}
