package inject

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// defaultUser is whom the proxy runs as, and whose traffic is not captured.
const defaultUser = 1337

// Users are the user and group IDs that a proxy runs as.
type Users struct{ UID, GID int64 }

func (u Users) orDefault() Users {
	if u.UID == 0 {
		u.UID = defaultUser
	}
	if u.GID == 0 {
		u.GID = defaultUser
	}
	return u
}

// uncaptured warns of containers that run as the proxy does: their traffic is taken for the proxy's, and passes it by.
func (j *job) uncaptured() []string {
	uid := j.Users.orDefault().UID
	if own := userContainer(j.pod, j.before, j.own, proxyContainer); own != nil && own.SecurityContext != nil && own.SecurityContext.RunAsUser != nil {
		uid = *own.SecurityContext.RunAsUser
	}
	var list []string
	for _, c := range slices.Concat(j.pod.Spec.InitContainers, j.pod.Spec.Containers) {
		var user *int64
		if s := j.pod.Spec.SecurityContext; s != nil {
			user = s.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			user = c.SecurityContext.RunAsUser
		}
		if user != nil && *user == uid && !slices.Contains([]string{proxyContainer, initContainer, validationContainer}, c.Name) {
			list = append(list, fmt.Sprintf("container %s runs as user %d, as the proxy does: its outbound traffic is not captured", c.Name, uid))
		}
	}
	return list
}

// Annotations in which OpenShift says which users and groups a namespace's pods may run as.
const (
	openShiftUsers  = "openshift.io/sa.scc.uid-range"
	openShiftGroups = "openshift.io/sa.scc.supplemental-groups"
)

// UserAnnotations gives those of a namespace's annotations that [UsersOf] reads.
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

// UsersOf gives the users that OpenShift has set aside for a namespace, by the namespace's annotations: the last of its range.
// Elsewhere they are zero.
func UsersOf(annotations map[string]string) Users {
	u := Users{}
	if last, ok := lastOf(annotations[openShiftUsers]); ok {
		u.UID = last
	}
	text := annotations[openShiftGroups]
	if text == "" {
		text = annotations[openShiftUsers]
	}
	first, _, _ := strings.Cut(text, ",")
	if last, ok := lastOf(first); ok {
		u.GID = last
	}
	return u
}

// lastOf gives the end of a range in one of OpenShift's forms, first/size or first-last.
func lastOf(text string) (int64, bool) {
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
