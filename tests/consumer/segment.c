/* tests/consumer/segment.c: a program written for XPMEM builds against an installed copy, and runs.
 */
#include <stdio.h>
#include <xpmem.h>

int main(void)
{
    xpmem_segid_t segid = xpmem_make(0, XPMEM_MAXADDR_SIZE, XPMEM_PERMIT_MODE, (void *)0600);
    xpmem_apid_t apid = xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, 0);
    printf("XPMEM consumer: segment %llx, permit %llx\n", segid, apid);
    return !(segid > 0 && apid > 0 && xpmem_release(apid) == 0 && xpmem_remove(segid) == 0);
}
