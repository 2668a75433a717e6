// Package manifests is a source of pods: directories and files of manifests, as the kubelet
// has its static pods, watched for changes.
//
// It is level-triggered. What it delivers is always the whole set of pods that should run, and
// which files are in trouble; who receives it compares it with what runs. A change that was
// missed is caught by the next look, because events only say when to look: the whole of all
// paths is looked at each time, and every now and then without an event.
//
// A pod that runs must not die of somebody's editor. So a change is believed only when two
// looks in a row see the same, and then
//
//   - a file is one unit. With an error anywhere in it, in the syntax or in what a pod asks for, it
//     is a Problem, and the pods of its last good version stay in the set. So it is for a file
//     that is empty or cannot be read, and for a link that leads nowhere;
//   - a file that is not there any more takes its pods along;
//   - a directory that is not there or cannot be listed says nothing of its files: their pods
//     stay. The same holds for a file that was named, when the directory around it is not there;
//   - a pod that two files have is taken from the first of them, in the order of the paths and then by
//     name. For the other file it is a Problem.
//
// What nobody can know is what a broken file held before the start. As long as that is so the set
// is Partial, and no pod that runs should be stopped because it is not in the set.
//
// Of a directory the files *.yaml, *.yml and *.json are read, not its subdirectories, and no
// hidden files. Links are followed, so a mounted ConfigMap works, which is exchanged by
// renaming a link. UIDs are podspec.UID's: the object's own, or a digest of its content.
package manifests
