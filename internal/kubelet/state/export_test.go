package state

// Encode returns the content of a file in a version. See EncodeCPU and EncodeMemory.
func (f *File) Encode(v Version) ([]byte, error) {
	if f.Manager == MemoryManager {
		return EncodeMemory(f.Memory, v)
	}
	return EncodeCPU(f.CPU, v)
}
