package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
)

// TestUserOfContainer: only a Pod that says so runs a container as root, and only images of the proxy and
// the control plane run as the proxy's user.
func TestUserOfContainer(t *testing.T) {
	application, proxy := &image.Image{}, &image.Image{User: image.ProxyUser}
	user := func(id int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: &id} }
	for _, c := range []struct {
		name      string
		image     *image.Image
		container *corev1.SecurityContext
		uid, gid  int // uid -1: it is refused
	}{
		{"application", application, nil, image.ApplicationUser, image.ApplicationUser},
		{"application with a user", application, user(1234), 1234, 0},
		{"application as root", application, user(0), 0, 0},
		{"application as the proxy's user", application, user(image.ProxyUser), -1, 0},
		{"proxy", proxy, nil, image.ProxyUser, image.ProxyUser},
		{"init container of the proxy", proxy, user(0), 0, 0},
	} {
		s := &initSpec{}
		err := s.setUser(&corev1.Pod{}, &corev1.Container{Name: "main", SecurityContext: c.container}, c.image)
		if c.uid < 0 {
			if err == nil {
				t.Errorf("%s: it runs as user %d", c.name, s.UID)
			}
			continue
		}
		if err != nil || s.UID != c.uid || s.GID != c.gid {
			t.Errorf("%s: user %d, group %d (%v), want %d and %d", c.name, s.UID, s.GID, err, c.uid, c.gid)
		}
	}
}
