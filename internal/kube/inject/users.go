package inject

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// defaultUser is the default user and group of the proxy, whose traffic is not captured.
const defaultUser = 1337

// Users are the user and group IDs of a proxy.
type Users struct{ UID, GID int64 }

// withDefaults returns u with defaultUser in place of each ID that is 0.
func (u Users) withDefaults() Users {
	if u.UID == 0 {
		u.UID = defaultUser
	}
	if u.GID == 0 {
		u.GID = defaultUser
	}
	return u
}

// uncapturedWarnings returns a warning for each container with the proxy's user ID, because its
// outbound traffic bypasses the proxy. The user may have overridden that ID. Injected containers
// are left out; nil means that there is no such container.
func (j *injection) uncapturedWarnings() []string {
	uid := j.Users.withDefaults().UID
	if own := userContainer(j.pod, j.previous, j.overrides, proxyContainer); own != nil && own.SecurityContext != nil &&
		own.SecurityContext.RunAsUser != nil {
		uid = *own.SecurityContext.RunAsUser
	}
	var list []string
	for _, name := range containersOfUser(j.pod, uid) {
		list = append(
			list,
			fmt.Sprintf("container %s has the proxy's user ID %d: its outbound traffic is not captured", name, uid),
		)
	}
	return list
}

// containersOfUser returns the names of the containers that run with a user ID, init containers
// first, or nil. A container's own user precedes that of the pod; without both it is not known and
// does not match. Containers named istio-proxy, istio-init and istio-validation are left out.
func containersOfUser(pod *corev1.Pod, uid int64) []string {
	var names []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		var user *int64
		if s := pod.Spec.SecurityContext; s != nil {
			user = s.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			user = c.SecurityContext.RunAsUser
		}
		if user != nil && *user == uid &&
			!slices.Contains([]string{proxyContainer, initContainer, validationContainer}, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// clearAssignedUser removes the user and group ID from the pod's own proxy container if
// AssignsUsers is set and another container has the same user ID: the platform assigned it to all
// of them, and capture exempts the proxy's user. The template's IDs then apply. It does nothing
// after an earlier injection, whose overrides have the user's own settings.
func (j *injection) clearAssignedUser() {
	proxy := findInPod(j.pod, proxyContainer)
	if !j.AssignsUsers || j.previous != nil || proxy == nil || proxy.SecurityContext == nil {
		return
	}
	s := proxy.SecurityContext
	if s.RunAsUser != nil && len(containersOfUser(j.pod, *s.RunAsUser)) > 0 {
		s.RunAsUser, s.RunAsGroup = nil, nil
	}
}

// OpenShift's annotations with the user and group ranges of a namespace's pods.
const (
	openShiftUsers  = "openshift.io/sa.scc.uid-range"
	openShiftGroups = "openshift.io/sa.scc.supplemental-groups"
)

// UserAnnotations returns a new map of the annotations that [NamespaceUsers] reads, or nil if there
// are none.
func UserAnnotations(annotations map[string]string) map[string]string {
	var list map[string]string
	for _, name := range []string{openShiftUsers, openShiftGroups} {
		if text, there := annotations[name]; there {
			if list == nil {
				list = map[string]string{}
			}
			list[name] = text
		}
	}
	return list
}

// NamespaceUsers returns the last user and group ID in OpenShift's ranges for a namespace, or zero
// values without these annotations. Without one for groups, the range of users is used for both; of
// several ranges of groups the first is used. An ID whose range is invalid is 0.
func NamespaceUsers(annotations map[string]string) Users {
	u := Users{}
	if last, ok := rangeEnd(annotations[openShiftUsers]); ok {
		u.UID = last
	}
	text := annotations[openShiftGroups]
	if text == "" {
		text = annotations[openShiftUsers]
	}
	first, _, _ := strings.Cut(text, ",")
	if last, ok := rangeEnd(first); ok {
		u.GID = last
	}
	return u
}

// rangeEnd returns the last number of a range of the form first/size or first-last, where first is
// not compared with last. The result is false, and the number meaningless, if the text has another
// form or a size of 0. Numbers must fit in 32 bits.
func rangeEnd(text string) (int64, bool) {
	if first, size, ok := strings.Cut(text, "/"); ok {
		f, err1 := strconv.ParseUint(first, 10, 32)
		n, err2 := strconv.ParseUint(size, 10, 32)
		return int64(f + n - 1), err1 == nil && err2 == nil && n > 0 //nolint:gosec // two numbers of 32 bits
	}
	if first, last, ok := strings.Cut(text, "-"); ok {
		_, err1 := strconv.ParseUint(first, 10, 32)
		l, err2 := strconv.ParseUint(last, 10, 32)
		return int64(l), err1 == nil && err2 == nil //nolint:gosec // a number of 32 bits
	}
	return 0, false
}
