! A Fortran program that knows nothing of Weir.  Compiled three times: with mpif.h, with `use mpi` (WEIR_USE_MPI) and with `use mpi_f08`
! (WEIR_USE_F08), whose handles have types of their own.

#ifdef WEIR_USE_F08
#define HANDLE(kind) type(kind)
#define NUMBER(handle) handle%MPI_VAL
#define NAME "weir:/fortran_f08"
#else
#define HANDLE(kind) integer
#define NUMBER(handle) handle
#ifdef WEIR_USE_MPI
#define NAME "weir:/fortran_mpi"
#else
#define NAME "weir:/fortran_h"
#endif
#endif

! An error handler, and what it was told.
module told
  implicit none
  integer :: told_calls = 0, told_file = 0, told_code = 0
contains
  subroutine tell(file, code)
#ifdef WEIR_USE_F08
    use mpi_f08
#endif
    HANDLE(MPI_File) :: file
    integer :: code
    told_calls = told_calls + 1
    told_file = NUMBER(file)
    told_code = code
  end subroutine
end module

program fortran_io
  use told
#if defined(WEIR_USE_F08)
  use mpi_f08
#elif defined(WEIR_USE_MPI)
  use mpi
#endif
  implicit none
#if !defined(WEIR_USE_F08) && !defined(WEIR_USE_MPI)
  include 'mpif.h'
#endif
#ifdef WEIR_USE_F08
  type(MPI_Status) :: status
#else
  integer :: status(MPI_STATUS_SIZE)
#endif
  HANDLE(MPI_File) :: file
  HANDLE(MPI_Datatype) :: filetype
  HANDLE(MPI_Request) :: request
  HANDLE(MPI_Errhandler) :: handler
  integer, parameter :: n = 10
  integer :: rank, ranks, ierr, i, got, length, code, error_class
  integer :: sent(n), received(n)
  integer(kind=MPI_OFFSET_KIND) :: disp, bytes
  character(len=MPI_MAX_ERROR_STRING) :: text

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)

  ! An error is an answer, with our message.
  call MPI_File_open(MPI_COMM_WORLD, NAME // "_missing", MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
  call MPI_Error_class(code, error_class, ierr)
  call check(error_class == MPI_ERR_NO_SUCH_FILE, "class of a missing file")
  call MPI_Error_string(code, text, length, ierr)
  call check(index(text(1:length), "_missing") > 0, "message of a missing file")

  ! Ints dealt one by one, in a collective call and in one that does not block.
  call MPI_File_open(MPI_COMM_WORLD, NAME, ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file, ierr)
  call check(ierr == MPI_SUCCESS, "open")
  call MPI_Type_vector(n, 1, ranks, MPI_INTEGER, filetype, ierr)
  call MPI_Type_commit(filetype, ierr)
  disp = 4 * rank
  call MPI_File_set_view(file, disp, MPI_INTEGER, filetype, "native", MPI_INFO_NULL, ierr)
  call check(ierr == MPI_SUCCESS, "set_view")
  call MPI_Type_free(filetype, ierr)
  sent = [(1000 * rank + i, i = 1, n)]
  call MPI_File_write_all(file, sent, n / 2, MPI_INTEGER, status, ierr)
  call check(ierr == MPI_SUCCESS, "write_all")
  call MPI_Get_count(status, MPI_INTEGER, got, ierr)
  call check(got == n / 2, "count of write_all")
  disp = n / 2
  call MPI_File_iwrite_at(file, disp, sent(n / 2 + 1:n), n / 2, MPI_INTEGER, request, ierr)
  call MPI_Wait(request, status, ierr)
  call check(ierr == MPI_SUCCESS, "iwrite_at")
  call MPI_File_sync(file, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_get_size(file, bytes, ierr)
  call check(bytes == 4 * n * ranks, "size")
  disp = 0
  call MPI_File_read_at_all(file, disp, received, n, MPI_INTEGER, status, ierr)
  call check(ierr == MPI_SUCCESS .and. all(received == sent), "read_at_all")

  ! The file's own error handler hears of its errors.
  call MPI_File_create_errhandler(tell, handler, ierr)
  call check(ierr == MPI_SUCCESS, "create_errhandler")
  call MPI_File_set_errhandler(file, handler, ierr)
  call MPI_Errhandler_free(handler, ierr)
  disp = -1
  call MPI_File_read_at(file, disp, received, 1, MPI_INTEGER, status, code)
  call check(told_calls == 1 .and. told_file == NUMBER(file) .and. told_code == code, "error handler")
  call MPI_File_close(file, ierr)
  call check(ierr == MPI_SUCCESS, "close")

  ! In file order.
  call MPI_File_open(MPI_COMM_SELF, NAME, MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
  disp = 4 * ranks
  call MPI_File_read_at(file, disp, received, 1, MPI_INTEGER, status, ierr)
  call check(received(1) == 2, "second int of rank 0")
  call MPI_File_close(file, ierr)

  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) print *, "fortran is content"
  call MPI_Finalize(ierr)

contains
  subroutine check(is_right, what)
    logical, intent(in) :: is_right
    character(len=*), intent(in) :: what
    if (.not. is_right) then
      print *, "rank", rank, "wrong: ", what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine
end program
