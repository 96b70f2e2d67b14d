! An internal procedure that uses its host's variables is passed as an argument: a trampoline on the stack,
! which must be executable for that.
program internal
  implicit none
  integer :: total, i
  integer, allocatable :: values(:)
  total = 0
  allocate(values(1000))
  do i = 1, 1000
    values(i) = i
  end do
  call each(values, add)
  print '(a,i0)', 'total ', total
  deallocate(values)
  if (total /= 500500) stop 3
contains
  subroutine add(value)
    integer, intent(in) :: value
    total = total + value
  end subroutine
  subroutine each(list, action)
    integer, intent(in) :: list(:)
    interface
      subroutine action(value)
        integer, intent(in) :: value
      end subroutine
    end interface
    integer :: k
    do k = 1, size(list)
      call action(list(k))
    end do
  end subroutine
end program
